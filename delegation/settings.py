"""The only reader of the environment: variables, the `.env` of the current folder, and `delegate.toml`, as one value.

A variable wins over `delegate.toml`, and the environment over `.env`. `.env` belongs to whatever folder the program was
started in, so it can neither choose programs and folders nor loosen a guard (`NOT_FROM_ENV_FILE`).
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import Field, ValidationError

from delegation.budgets import BudgetLimits
from delegation.errors import UsageError
from delegation.home import Home
from delegation.models.addresses import checked_url
from delegation.models.backends_file import BackendsFile, read_backends
from delegation.models.config_file import ConfigFile, read_config, where
from delegation.places import expanded, home_from, user_home
from delegation.variables import VARIABLES, Variables
from delegation.wrong_values import Wrong, wrong_values

NOT_FROM_ENV_FILE = re.compile(
    r"DELEGATE_(HOME|BUDGET_.*|NOTIFY.*|CONFINEMENT|NETWORK|VERIFY|ALLOW_PATH_ESCAPE|ENV_PASSTHROUGH|PROVIDER_ALLOWED_HOSTS|LOCAL_HOSTS|LOCAL_PATHS"
    r"|LOCAL_AGENTS_DIR|MODELS_FILE|LAUNCHER|MCP_CONFIG|DATABASE.*|SERVER_PORT|STACK|TEST_ISOLATION.*|.*_(BIN|LAUNCHER|STATE_DIR|MODELS_FILE|ALLOW_DANGER))"
    r"|PREFECT_.*|HOME|USERPROFILE|PATH|XDG_.*|LD_.*|PYTHON.*|GIT_.*|CODEX_HOME|(DSH|HERDR|TMUX).*"
)
_CEILING = re.compile(r"DELEGATE_CONCURRENCY_([A-Z0-9_]+)")


class Settings(Variables):
    """What one process knows of its surroundings, read once. Never printed whole: `environ` holds keys."""

    home: Home
    cwd: Path
    user_home: Path | None = Field(description="None where the environment does not say.")
    environ: Mapping[str, str] = Field(
        repr=False, description="The environment with `.env` beneath it, for `env:NAME`."
    )
    from_env_file: frozenset[str] = Field(frozenset(), description="Variables whose value comes from `.env`.")
    ceilings: Mapping[str, int] = Field(default_factory=dict, description="DELEGATE_CONCURRENCY_<key> -> slots.")
    catalogue: ConfigFile = Field(default_factory=ConfigFile)
    backends: BackendsFile = BackendsFile()
    warnings: tuple[str, ...] = ()

    def path(self, text: str) -> Path:
        """An absolute path from what a person wrote: `~` is their home, and relative means from `cwd`."""
        return expanded(text, self.environ, self.cwd)

    @property
    def global_agents_dir(self) -> Path:
        return self.agents_dir or (self.user_home or self.home.root) / ".claude" / "agents"

    def budget_limits(self, per_delegation_usd: float | None) -> BudgetLimits:
        """The limits of a delegation whose card has this budget."""
        return BudgetLimits(
            per_delegation_usd=per_delegation_usd,
            per_repository_per_day_usd=self.budget_per_repository_per_day_usd,
            per_day_usd=self.budget_per_day_usd,
            per_night_usd=self.budget_per_night_usd,
            allow_unknown_cost=self.budget_allow_unknown_cost,
            time_zone=self.budget_time_zone,
        )

    @property
    def state_dirs(self) -> tuple[Path, ...]:
        """Every folder that holds state of ours: no agent may work above, in or below one."""
        moved = (self.codex_state_dir, self.gemini_state_dir, self.dsh_state_dir)
        return (self.home.root, self.home.config_file.parent, *(folder for folder in moved if folder))


def own_home() -> Home:
    """This process's home, without reading any file: `.env` has no say in it (`NOT_FROM_ENV_FILE`), nor any other."""
    return home_from(os.environ)


def load_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Settings from the environment (the process's own by default), `.env` in `cwd`, and `delegate.toml`.

    Touches nothing but these files. Raises UsageError in one line that names the variable or the file, table and key,
    and what is allowed there; the value of a secret is never shown.
    """
    cwd = cwd or Path.cwd()
    merged, from_file, refused = _environment(environ, cwd)
    return _settings(merged, cwd, read_config(home_from(merged).config_file), from_file, refused)


def settings_at_work(environ: Mapping[str, str] | None = None) -> Settings:
    """The same for work under way, which a mistake made in a file meanwhile must not end: a `delegate.toml` that cannot
    be read counts as empty, and a warning says so. Raises UsageError for a wrong variable."""
    try:
        return load_settings(environ)
    except UsageError as error:
        merged, from_file, refused = _environment(environ, Path.cwd())
        return _settings(merged, Path.cwd(), ConfigFile(), from_file, (*refused, f"{error}: the file is left aside"))


def environment(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Mapping[str, str]:
    """The environment with `.env` beneath it, as `Settings.environ` has it. Raises UsageError for a damaged `.env`."""
    return _environment(environ, cwd or Path.cwd())[0]


def _environment(
    environ: Mapping[str, str] | None, cwd: Path
) -> tuple[dict[str, str], Mapping[str, str], tuple[str, ...]]:
    """All of it, what came from `.env`, and what is refused there."""
    given = dict(os.environ if environ is None else environ)
    from_file, refused = _env_file(cwd / ".env", given)
    return {**given, **from_file}, from_file, refused


def _settings(
    merged: Mapping[str, str], cwd: Path, catalogue: ConfigFile, from_file: Mapping[str, str], warnings: tuple[str, ...]
) -> Settings:
    home = home_from(merged)
    variables = _variables(merged, catalogue, home, cwd)
    _check_together(variables)
    return Settings.model_validate(
        {
            **variables.model_dump(exclude_unset=True),
            "home": home,
            "cwd": cwd,
            "user_home": _user_home(merged),
            "environ": merged,
            "from_env_file": frozenset(from_file),
            "ceilings": _ceilings(merged),
            "catalogue": catalogue,
            "backends": _backends(variables, home, cwd),
            "warnings": (*warnings, *_misspelt(merged)),
        },
        context={"environ": merged, "cwd": cwd},
    )


def _env_file(path: Path, given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        content = dotenv_values(path, interpolate=False, encoding="utf-8-sig") if path.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    new = {name: value for name, value in content.items() if value and not given.get(name)}
    refused = sorted(
        name for name in new if NOT_FROM_ENV_FILE.fullmatch(name) and name.startswith(("DELEGATE_", "PREFECT_"))
    )
    warnings = tuple(
        f"{path}: {name} is ignored there; set it in the environment or in delegate.toml" for name in refused
    )
    return {name: value for name, value in new.items() if not NOT_FROM_ENV_FILE.fullmatch(name)}, warnings


def _variables(environ: Mapping[str, str], catalogue: ConfigFile, home: Home, cwd: Path) -> Variables:
    in_file = dict(catalogue.settings)
    for name in ("default_model", "local_paths", "local_hosts"):
        if value := getattr(catalogue, name):
            in_file.setdefault(name, value)
    for name, value in catalogue.budgets.model_dump(exclude_none=True).items():
        in_file.setdefault(f"budget_{name}", value)
    in_file_context = {"environ": environ, "cwd": home.config_file.parent}
    from_file = _validated(in_file, in_file_context, home.config_file)
    set_here = {name: environ[name] for name in VARIABLES if environ.get(name)}
    from_environment = _validated(set_here, {"environ": environ, "cwd": cwd}, None)
    return from_file.model_copy(update=from_environment.model_dump(exclude_unset=True))


def _validated(values: Mapping[str, Any], context: Mapping[str, Any], file: Path | None) -> Variables:
    try:
        return Variables.model_validate(values, context=dict(context), by_alias=not file, by_name=bool(file))
    except ValidationError as error:
        raise UsageError("; ".join(_said(wrong, file) for wrong in wrong_values(error, Variables))) from None


def _said(wrong: Wrong, file: Path | None) -> str:
    if file is None:
        return wrong.named()
    return f"{where(file, ('settings', *wrong.place))} {wrong.named()}"


def _check_together(settings: Variables) -> None:
    if settings.codex_max_per_project > settings.codex_max_concurrent:
        raise UsageError(
            f"DELEGATE_CODEX_MAX_PER_PROJECT={settings.codex_max_per_project} is above "
            f"DELEGATE_CODEX_MAX_CONCURRENT={settings.codex_max_concurrent}: lower it or raise the other"
        )
    if settings.gateway == "bifrost":
        _check_bifrost(settings)


def _check_bifrost(settings: Variables) -> None:
    if not settings.bifrost_url:
        raise UsageError("DELEGATE_GATEWAY=bifrost needs DELEGATE_BIFROST_URL, the base address of Bifrost")
    checked_url(settings.bifrost_url, "DELEGATE_BIFROST_URL")
    if settings.bifrost_local_url:
        checked_url(settings.bifrost_local_url, "DELEGATE_BIFROST_LOCAL_URL")
    if settings.bifrost_api not in ("litellm", "openai"):
        raise UsageError(f"DELEGATE_BIFROST_API={settings.bifrost_api!r}: must be 'litellm' or 'openai'")


def _ceilings(environ: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in environ.items():
        if (match := _CEILING.fullmatch(name)) and value:
            if not value.isascii() or not value.strip().isdigit() or not 1 <= int(value) <= 1000:
                raise UsageError(f"{name}={value!r}: must be a whole number from 1 to 1000")
            found[match[1]] = int(value)
    return found


def _backends(settings: Variables, home: Home, cwd: Path) -> BackendsFile:
    if settings.models_file:
        return read_backends(settings.models_file)
    beside_config = home.config_file.parent / "models.json"
    if beside_config.is_file():
        return read_backends(beside_config)
    here = cwd / "models.json"
    return read_backends(here, in_current_folder=True) if here.is_file() else BackendsFile()


def _user_home(environ: Mapping[str, str]) -> Path | None:
    try:
        return user_home(environ, "")
    except UsageError:
        return None


def _misspelt(environ: Mapping[str, str]) -> tuple[str, ...]:
    strange = sorted(
        n
        for n in environ
        if n.startswith("DELEGATE_") and n not in {*VARIABLES, "DELEGATE_HOME"} and not _CEILING.fullmatch(n)
    )
    near = ((name, difflib.get_close_matches(name, VARIABLES, 1, cutoff=0.9)) for name in strange)
    return tuple(f"{name} is not a variable of ours: did you mean {match[0]}?" for name, match in near if match)
