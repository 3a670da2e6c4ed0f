"""The Codex CLI under the user's ChatGPT plan: one login, and for each run a database folder of its own."""

import json
from pathlib import Path

from delegation.confinement import Confiner, Walls, find_confiner
from delegation.errors import EndpointError, WorkFailed
from delegation.harnesses.codex_events import CodexReader
from delegation.harnesses.codex_login import codex_home, login_state
from delegation.harnesses.codex_models import DANGER
from delegation.harnesses.codex_sessions import thread_usage
from delegation.harnesses.harness import Command, Ended, Job, Probe, Said
from delegation.harnesses.installed import program_path
from delegation.harnesses.nesting import confiner_around
from delegation.harnesses.order import HarnessName
from delegation.harnesses.surroundings import environment_of, home_of, needed_program, walls_of
from delegation.harnesses.versions import at_least, version_of
from delegation.harnesses.words import spoken_failure
from delegation.settings import Settings

_NEEDED = {"gpt-6.1": (0, 164)}
_LOG_IN = "Run `codex login` in a terminal; waiting work goes on when auth.json has changed"
_LOGIN_PROBLEMS = {
    "missing": "Codex is not logged in: run `codex login`",
    "api_key": "Codex is logged in with an API key; jobs run on the ChatGPT plan, and Codex would log that key out: "
    "run `codex login`, or name another CODEX_HOME",
}


class Codex:
    """See `Harness`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def name(self) -> HarnessName:
        return "codex"

    def probe(self) -> Probe:
        program = program_path(self._settings.codex_bin, self._settings)
        if program is None:
            return Probe(
                None,
                problem=f"{self._settings.codex_bin!r} is not on PATH: install it (npm install -g @openai/codex), "
                "or name it in DELEGATE_CODEX_BIN",
            )
        program = native(program)
        version = version_of(program, self._settings)
        login = login_state(self._settings)
        problem = too_old(version, self._settings.codex_model)
        if problem is None and login != "ok":
            problem = _LOGIN_PROBLEMS.get(login)
        return Probe(program, version, login, problem)

    def command(self, job: Job) -> Command:
        """Raises WorkFailed: no program, one too old for the model, a login by API key, no sandbox where required."""
        program = native(needed_program(self._settings.codex_bin, self._settings, job, "DELEGATE_CODEX_BIN"))
        if (problem := too_old(version_of(program, self._settings), job.order.model or "")) is not None:
            raise WorkFailed("config", problem)
        if login_state(self._settings) == "api_key":
            raise WorkFailed("auth", _LOGIN_PROBLEMS["api_key"])
        home = _home(self._settings)
        (home_of(job) / "sqlite").mkdir(mode=0o700, exist_ok=True)
        env = environment_of(job, self._settings, extra={"CODEX_HOME": str(home)})
        walls = walls_of(job, self._settings, env, readable=_installation(program), writable=(home,))
        confiner = _confiner(job, program, walls)
        return Command(
            argv=(str(program), *_arguments(job)),
            env=env,
            stdin=job.task,
            confiner=confiner,
            walls=walls,
            confined_by=_confined_by(job, confiner),
        )

    def reader(self, job: Job) -> CodexReader:
        if job.order.resume is None:
            return CodexReader()
        return CodexReader(thread_usage(codex_home(self._settings), job.order.resume) or job.thread_usage)

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        """Exit code 0 counts only with a finished turn; words decide the kind."""
        if said.problem is None and ended.exit_code == 0 and said.complete:
            return None
        if said.problem is not None:
            otherwise = "bad_request" if said.turns else "process"
            error = spoken_failure("codex", said.problem, otherwise=otherwise)
            return (
                spoken_failure("codex", said.problem, otherwise="auth", advice=_LOG_IN)
                if error.kind == "auth"
                else error
            )
        if ended.signal_name is not None:
            return EndpointError("process", f"codex was ended by {ended.signal_name}")
        if ended.exit_code == 0 and not said.turns:
            return EndpointError("empty_answer", "codex ended with exit code 0 and reported nothing")
        return EndpointError("process", f"codex ended with exit code {ended.exit_code} before its turn was finished")


def _home(settings: Settings) -> Path:
    home = codex_home(settings)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        said = f"the folder of the Codex login, {str(home)!r}, cannot be made ({error.strerror}): see CODEX_HOME"
        raise WorkFailed("config", said) from error
    return home


def native(program: Path) -> Path:
    """The program itself behind npm's launcher: a signal then reaches it, and no node has to be shown to it."""
    real = program.resolve()
    if real.suffix != ".js":
        return real
    for folder in (real.parents[1] / "node_modules" / "@openai", real.parents[2]):
        found = sorted(folder.glob("codex-*/vendor/*/bin/codex"))
        if found:
            return found[0]
    return program


def too_old(version: str | None, model: str) -> str | None:
    """What to say when this version cannot run the model; None when it can, or nobody knows."""
    needed = next((least for prefix, least in _NEEDED.items() if model.startswith(prefix)), None)
    if needed is None or version is None or at_least(version, needed):
        return None
    return (
        f"codex-cli {version} is too old for {model}: it needs {'.'.join(map(str, needed))} or newer. "
        "Upgrade it yourself (npm install -g @openai/codex@latest, or brew upgrade codex); nothing is upgraded for you"
    )


def _arguments(job: Job) -> list[str]:
    order = job.order
    settings: dict[str, str | bool | list[str]] = {
        "model_reasoning_effort": order.effort or "low",
        "forced_login_method": "chatgpt",
        "sqlite_home": str(home_of(job) / "sqlite"),
        "check_for_update_on_startup": False,
        "approval_policy": "never",
        "sandbox_mode": order.sandbox or "workspace-write",
    }
    if order.sandbox != DANGER and job.writable:
        settings["sandbox_workspace_write.writable_roots"] = [str(path) for path in job.writable]
    words = ["exec"]
    if order.resume:
        words += ["resume", order.resume]
    words += ["--json", "--skip-git-repo-check"]
    if order.model:
        words += ["--model", order.model]
    for name, value in settings.items():
        words += ["-c", f"{name}={json.dumps(value)}"]  # a JSON string, list or boolean is a TOML one
    return [*words, "-"]


def _installation(program: Path) -> tuple[Path, ...]:
    """The program with the helpers beside it; alone where it is not in a folder of its own."""
    package = program.parents[1]
    return (package,) if (package / "codex-resources").is_dir() else (program,)


def _confiner(job: Job, program: Path, walls: Walls) -> Confiner | None:
    """Ours around its own sandbox; without one of its own, ours alone."""
    if job.order.sandbox == DANGER:
        return find_confiner(job.confinement)
    bundled = program.parents[1] / "codex-resources" / "bwrap"
    return confiner_around(job.confinement, bundled if bundled.is_file() else None, walls=walls, cwd=job.workdir)


def _confined_by(job: Job, confiner: Confiner | None) -> str | None:
    own = None if job.order.sandbox == DANGER else f"codex {job.order.sandbox or 'workspace-write'}"
    return " + ".join(name for name in (confiner.name if confiner else None, own) if name) or None
