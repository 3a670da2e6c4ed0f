"""`doctor`: what is there, what is missing, and how to get it. It looks only, and contacts nothing but loopback."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from delegation.errors import DelegateError, UsageError
from delegation.models.config_file import ModelTable
from delegation.settings import Settings, load_settings, settings_at_work
from delegation.stack_state import live_state
from deployments.configuration import Configuration
from deployments.kept import Kept, holder_of, is_free
from deployments.launcher.asking import ask
from deployments.places import Places
from deployments.prefect_internals import problems

Verdict = Literal["ok", "missing", "optional"]
_SECONDS = 20
_OLDEST_GIT = (2, 31)


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `optional` is missing too, but only narrows what can be done."""

    name: str
    verdict: Verdict
    detail: str
    remedy: str | None = None


def doctor(configuration: Configuration) -> tuple[int, dict[str, Any], str]:
    """Exit code (2 when something needed is missing), JSON object, text."""
    findings = list(_findings(configuration, settings_at_work()))
    broken = [finding for finding in findings if finding.verdict == "missing"]
    report = {"healthy": not broken, "findings": [asdict(finding) for finding in findings]}
    return (2 if broken else 0), report, "\n".join(_line(finding) for finding in findings)


def _settings() -> Finding:
    try:
        found = load_settings()
    except UsageError as error:
        return Finding("settings", "missing", str(error), "put it right: until then nothing new is begun")
    file = found.home.config_file
    return Finding("settings", "ok", str(file) if file.exists() else f"as they come; {file} is not there")


def _findings(configuration: Configuration, settings: Settings) -> Iterator[Finding]:
    yield Finding("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")
    yield _git()
    yield _home(configuration)
    yield _settings()
    yield _database(configuration)
    yield _port(configuration)
    yield _confinement()
    yield from map(_program, _PROGRAMS)
    yield from _commands(settings)
    yield from _models(settings)
    yield from _readers(settings)
    yield _stack(configuration)
    yield from _launcher(configuration)
    yield from _leaning()


@dataclass(frozen=True)
class _Program:
    name: str
    used_for: str
    remedy: str


_PROGRAMS = (
    _Program("rg", "faster search for agents", "install ripgrep"),
    _Program("claude", "Claude Code as a client", "npm install -g @anthropic-ai/claude-code"),
)


def _git() -> Finding:
    text = _output("git", "--version")
    if text is None:
        return Finding("git", "missing", "no git on PATH", "install git 2.31 or newer")
    version = tuple(int(part) for part in text.split()[2].split(".")[:2] if part.isdecimal())
    if version < _OLDEST_GIT:
        return Finding("git", "missing", f"{text} is too old", "install git 2.31 or newer")
    return Finding("git", "ok", text)


def _home(configuration: Configuration) -> Finding:
    root = configuration.home.root
    nearest = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(
            "home", "missing", f"{str(nearest)!r} cannot be written", "set DELEGATE_HOME to a folder you may write"
        )
    return Finding("home", "ok", str(root))


def _database(configuration: Configuration) -> Finding:
    from deployments.database.postgres import NoEmbeddedDatabase, installation, major_version

    if configuration.database_url:
        return Finding("database", "ok", "your own, by DELEGATE_DATABASE_URL")
    if configuration.database == "sqlite":
        return Finding("database", "optional", "SQLite, by DELEGATE_DATABASE=sqlite", "unset it to run PostgreSQL")
    try:
        return Finding("database", "ok", f"embedded PostgreSQL {major_version(installation())}")
    except (NoEmbeddedDatabase, OSError, subprocess.SubprocessError) as error:
        return Finding("database", "optional", f"SQLite only ({error})", "set DELEGATE_DATABASE_URL to a PostgreSQL")


def _port(configuration: Configuration) -> Finding:
    wanted, state = configuration.server_port, live_state(configuration.home)
    used = urlsplit(state.api_url).port if state else None
    if state and wanted in (None, used):
        return Finding("port", "ok", f"{used}, where the stack runs")
    if state:
        told = f"{used}, where the stack runs; DELEGATE_SERVER_PORT={wanted} counts from its next start"
        return Finding("port", "optional", told, "delegate down, then delegate up")
    if wanted is None:
        last = Kept(Places(configuration.home)).get("server_port")
        return Finding("port", "ok", _next_port(last) if isinstance(last, int) else "a free one, chosen at the start")
    if is_free(wanted):
        return Finding("port", "ok", f"{wanted}, by DELEGATE_SERVER_PORT; it is free")
    taken = f"DELEGATE_SERVER_PORT={wanted} is taken by {holder_of(wanted)}"
    return Finding("port", "missing", taken, "end that program, or choose another port")


def _next_port(last: int) -> str:
    if is_free(last):
        return f"{last}, as at the last start"
    return f"a free one, chosen at the start: {last}, used last, is taken by {holder_of(last)}"


def _confinement() -> Finding:
    from delegation.confinement import find_confiner

    try:
        confiner = find_confiner("auto")
    except DelegateError as error:
        return Finding("confinement", "optional", str(error), "install bubblewrap")
    if confiner is None:
        return Finding(
            "confinement",
            "optional",
            "agents run unconfined: bubblewrap is missing or may not run",
            "install bubblewrap",
        )
    return Finding("confinement", "ok", confiner.name)


def _program(program: _Program) -> Finding:
    path = shutil.which(program.name)
    if path is None:
        return Finding(program.name, "optional", f"not on PATH: no {program.used_for}", program.remedy)
    return Finding(program.name, "ok", path)


def _commands(settings: Settings) -> Iterator[Finding]:
    from delegation.harnesses.command import remedy_of_missing
    from delegation.harnesses.installed import program_path

    for name, template in settings.catalogue.commands.items():
        found, program = f"command {name}", template.argv[0]
        if (path := program_path(program, settings)) is not None:
            yield Finding(found, "ok", str(path))
        else:
            yield Finding(found, "optional", f"{program!r} is not on PATH", remedy_of_missing(name, settings))


def _models(settings: Settings) -> Iterator[Finding]:
    for alias, model in settings.catalogue.models.items():
        yield _model(alias, model, settings)
    if not settings.catalogue.models:
        yield _local_model(settings)


def _model(alias: str, model: ModelTable, settings: Settings) -> Finding:
    name, key = f"model {alias}", model.key or ""
    variable = key.removeprefix("env:")
    if key and variable == key:
        file = settings.home.config_file
        return Finding(name, "optional", f"its key stands as text in {file}", 'write key = "env:NAME" instead')
    if key and not settings.environ.get(variable):
        return Finding(name, "optional", f"its key {variable} is not set", f"set {variable}")
    return _endpoint(name, model.base_url, model.base_url)


def _endpoint(name: str, url: str, detail: str) -> Finding:
    """Whether anything takes connections there, where that is this machine; others are not contacted."""
    from delegation.models.addresses import is_loopback
    from delegation.models.discovery import listens

    if not is_loopback(url):
        return Finding(name, "ok", f"{detail} (not asked: it is not on this machine)")
    if listens(url):
        return Finding(name, "ok", detail)
    return Finding(name, "optional", f"nothing listens at {url}", "start its server, or put its address right")


def _local_model(settings: Settings) -> Finding:
    if settings.local_url:
        return _endpoint("model", settings.local_url, f"DELEGATE_LOCAL_URL={settings.local_url}")
    file = settings.home.config_file
    return Finding(
        "model", "optional", f"no catalogue in {str(file)!r} and no DELEGATE_LOCAL_URL", f"set it, or write {file}"
    )


def _launcher(configuration: Configuration) -> Iterator[Finding]:
    """Nothing needs it: a run that it does not fork starts an interpreter of its own, and takes two seconds longer."""
    state = live_state(configuration.home)
    slower = "each run starts `python -m prefect.engine` by itself, some two seconds slower"
    if not configuration.launcher:
        yield Finding("launcher", "optional", f"off by DELEGATE_LAUNCHER: {slower}", "unset DELEGATE_LAUNCHER")
    elif state is not None:
        try:
            runs = ask(Path(state.launcher_socket), {"op": "runs"})
        except (OSError, ValueError) as error:
            log = Places(configuration.home).logs / "launcher.log"
            detail = f"does not answer at {state.launcher_socket!r} ({error}): {slower}"
            yield Finding(
                "launcher", "optional", detail, f"see {str(log)!r}; `delegate down`, `delegate up` start it anew"
            )
        else:
            yield Finding("launcher", "ok", f"forks the flow processes; {len(runs)} live now")


def _leaning() -> Iterator[Finding]:
    """What a Prefect that we do not know lacks: all works without it, and costs more."""
    found = problems()
    for each in found:
        yield Finding("prefect", "optional", each, "a newer delegate-flows may know this Prefect")
    if not found:
        yield Finding("prefect", "ok", version("prefect"))


def _stack(configuration: Configuration) -> Finding:
    state = live_state(configuration.home)
    return Finding("stack", "ok", state.ui_url) if state else Finding("stack", "optional", "not running", "delegate up")


def _readers(settings: Settings) -> Iterator[Finding]:
    """The reader's JSON configuration, where there is one."""
    from delegation.reading.pool import config_of

    try:
        config = config_of(settings)
    except DelegateError as error:
        yield Finding("readers", "optional", " ".join(str(error).split()), "put it right, or let the catalogue serve")
        return
    if config is not None:
        odd = "".join(f"; {warning}" for warning in config.warnings)
        names = ", ".join(provider.name for provider in config.providers)
        yield Finding("readers", "ok", f"{names} in {config.path}{odd}")


def _output(*argv: str) -> str | None:
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _line(finding: Finding) -> str:
    mark = {"ok": "ok      ", "missing": "MISSING ", "optional": "-       "}[finding.verdict]
    return f"{mark}{finding.name}: {finding.detail}" + (f" -> {finding.remedy}" if finding.remedy else "")
