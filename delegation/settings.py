"""The only reader of the environment: variables, the `.env` of the current folder, and `delegate.toml`, as one value.

A variable wins over `delegate.toml`, and the environment over `.env`. `.env` belongs to whatever folder the program was
started in, so it can neither choose programs and folders nor loosen a guard (`NOT_FROM_ENV_FILE`).
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from delegation.card import Confinement
from delegation.errors import UsageError
from delegation.home import Home
from delegation.models.addresses import check_local_host, checked_url
from delegation.models.backends_file import BackendsFile, read_backends
from delegation.models.config_file import ConfigFile, read_config
from delegation.places import expanded, home_from, user_home

DEFAULT_LOCAL_URL = "http://localhost:4000/v1/messages"
DEFAULT_LOCAL_MODEL = "local-qwen-3-6-35b"
NOT_FROM_ENV_FILE = re.compile(
    r"DELEGATE_(HOME|CONFINEMENT|NETWORK|ALLOW_PATH_ESCAPE|ENV_PASSTHROUGH|PROVIDER_ALLOWED_HOSTS|LOCAL_HOSTS|LOCAL_PATHS"
    r"|LOCAL_AGENTS_DIR|MODELS_FILE|MCP_CONFIG|DATABASE_URL|TEST_ISOLATION.*|.*_(BIN|LAUNCHER|STATE_DIR|MODELS_FILE|ALLOW_DANGER))"
    r"|PREFECT_.*|HOME|USERPROFILE|PATH|XDG_.*|LD_.*|PYTHON.*|GIT_.*"
)
_CEILING = re.compile(r"DELEGATE_CONCURRENCY_([A-Z0-9_]+)")


def _path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    try:
        return expanded(value, info.context["environ"], info.context["cwd"])
    except UsageError as error:
        raise ValueError(str(error)) from None


def _words(value: object) -> object:
    return tuple(re.split(r"[\s,]+", value.strip(" ,\t\n"))) if isinstance(value, str) else value


def _address(value: str) -> str:
    try:
        return checked_url(value, "it")
    except UsageError as error:
        raise ValueError(str(error)) from None


PathSetting = Annotated[Path, BeforeValidator(_path)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Hosts = Annotated[tuple[Annotated[str, BeforeValidator(check_local_host)], ...], BeforeValidator(_words)]
Paths = Annotated[tuple[PathSetting, ...], BeforeValidator(lambda v: tuple(v.split(os.pathsep)) if isinstance(v, str) else v)]
Address = Annotated[str, BeforeValidator(_address)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _variable(name: str, default: Any = None, *, secret: bool = False, says: str) -> Any:
    return Field(default, alias=name, repr=not secret, description=says)


class Variables(BaseModel):
    """Every setting: its variable (the alias), its name under `[settings]`, its type, its default."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # Models
    local_url: Address | None = _variable("DELEGATE_LOCAL_URL", says=f"Default endpoint; unset means {DEFAULT_LOCAL_URL}.")
    local_key: str | None = _variable("DELEGATE_LOCAL_KEY", secret=True, says="Key of the default endpoint.")
    local_model: str | None = _variable("DELEGATE_LOCAL_MODEL", says=f"Default model; unset means {DEFAULT_LOCAL_MODEL}.")
    coding_model: str | None = _variable("DELEGATE_LOCAL_CODING_MODEL", says="Model of coding agents when none is named.")
    base_url: Address | None = _variable("DELEGATE_BASE_URL", says="OpenAI-format endpoint of calls that name no backend.")
    api_key: str | None = _variable("DELEGATE_API_KEY", secret=True, says="Its key.")
    model: str | None = _variable("DELEGATE_MODEL", says="Its model.")
    default_model: str | None = _variable("DELEGATE_DEFAULT_MODEL", says="Alias used when a card names none.")
    models_file: PathSetting | None = _variable("DELEGATE_MODELS_FILE", says="A models.json at another place.")
    discover: bool = _variable("DELEGATE_DISCOVER", True, says="Look for a local server when no model is configured.")
    resend_reasoning: Literal["auto", "1", "0"] = _variable(
        "DELEGATE_RESEND_REASONING", "auto", says="Earlier reasoning goes back to: deepseek-* (auto), all (1), none (0)."
    )
    local_hosts: Hosts = _variable("DELEGATE_LOCAL_HOSTS", (), says="Private hosts and networks that count as local.")
    local_paths: Paths = _variable("DELEGATE_LOCAL_PATHS", (), says="Folders whose work stays in the lane 'local'.")
    provider_allowed_hosts: Words = _variable(
        "DELEGATE_PROVIDER_ALLOWED_HOSTS", (), says="The only hosts that `delegate_to_provider` may call; unset: no list."
    )
    # Gateway
    gateway: Literal["litellm", "bifrost"] = _variable("DELEGATE_GATEWAY", "litellm", says="What answers at the default endpoint.")
    bifrost_url: str | None = _variable("DELEGATE_BIFROST_URL", says="Base address of Bifrost.")
    bifrost_local_url: str | None = _variable("DELEGATE_BIFROST_LOCAL_URL", says="Another base for local-* and ornith*.")
    bifrost_api: str = _variable("DELEGATE_BIFROST_API", "litellm", says="'litellm': both formats; 'openai': chat completions for all.")
    bifrost_key_local: str | None = _variable("DELEGATE_BIFROST_VK_LOCAL", secret=True, says="Virtual key for local aliases.")
    bifrost_key_code: str | None = _variable("DELEGATE_BIFROST_VK_CODE", secret=True, says="Virtual key for the others.")
    # Work
    agents_dir: PathSetting | None = _variable("DELEGATE_LOCAL_AGENTS_DIR", says="Markdown agents; unset means ~/.claude/agents.")
    max_turns_local: Annotated[int, Field(ge=1, le=150)] = _variable("DELEGATE_MAX_TURNS_LOCAL", 25, says="Turns in the lane 'local'.")
    max_turns_cloud: Annotated[int, Field(ge=1, le=150)] = _variable("DELEGATE_MAX_TURNS_CLOUD", 60, says="Turns elsewhere.")
    max_turns_cap: Annotated[int, Field(ge=1, le=150)] = _variable("DELEGATE_MAX_TURNS_CAP", 150, says="No card gets more.")
    timeout_seconds: Count = _variable("DELEGATE_TIMEOUT_SECONDS", 3600, says="Time for the agent.")
    max_tokens: Count = _variable("DELEGATE_MAX_TOKENS", 65_536, says="Output tokens per reply.")
    confinement: Confinement = _variable("DELEGATE_CONFINEMENT", "auto", says="Operating-system sandbox.")
    network: bool = _variable("DELEGATE_NETWORK", True, says="Network for agents' shells outside the lane 'local'.")
    run_bash: bool = _variable("DELEGATE_RUN_BASH", True, says="0 takes the shell away from agents.")
    allow_path_escape: bool = _variable("DELEGATE_ALLOW_PATH_ESCAPE", False, says="1 lets file tools leave the worktree.")
    env_passthrough: Words = _variable("DELEGATE_ENV_PASSTHROUGH", (), says="Variables that agents' commands also get.")
    # Queues and limits
    max_queue: Count = _variable("DELEGATE_MAX_QUEUE", 256, says="Delegations waiting or running at once.")
    max_concurrency: Count = _variable("DELEGATE_MAX_CONCURRENCY", 4, says="`delegate task`, `agentic` and `batch` at once.")
    slot_wait_seconds: Seconds = _variable("DELEGATE_SLOT_WAIT_SECONDS", 0, says="Wait in a full pool before failing over.")
    failover_grace_seconds: Seconds = _variable("DELEGATE_FAILOVER_GRACE", 10, says="Wait for a fallback's slot.")
    # Stack
    database_url: str | None = _variable("DELEGATE_DATABASE_URL", secret=True, says="PostgreSQL of your own.")
    prefect_api_url: Address | None = _variable("PREFECT_API_URL", says="A Prefect server of your own.")
    prefect_auth_string: str | None = _variable("PREFECT_API_AUTH_STRING", secret=True, says="Its user:password.")
    prefect_api_key: str | None = _variable("PREFECT_API_KEY", secret=True, says="Its key.")
    toolsets: Words = _variable("DELEGATE_TOOLSETS", (), says="MCP tools to offer; unset means all that can work.")
    dispatch_log: bool = _variable("DELEGATE_LOG", True, says="0 writes no dispatch log.")
    reader_config: PathSetting | None = _variable("DELEGATE_MCP_CONFIG", says="JSON config of the reading lane.")
    wait_interval_seconds: Annotated[float, Field(gt=0)] = _variable("DELEGATE_WAIT_INTERVAL", 5, says="Poll of `delegate-wait`.")
    test_isolation: str | None = _variable("DELEGATE_TEST_ISOLATION", says="Present, even empty: the tests' safety net is on.")
    test_isolation_root: PathSetting | None = _variable("DELEGATE_TEST_ISOLATION_ROOT", says="Everything must lie below it.")
    # Command-line agents
    codex_bin: str = _variable("DELEGATE_CODEX_BIN", "codex", says="The Codex program.")
    codex_model: str = _variable("DELEGATE_CODEX_MODEL", "gpt-6.1-terra", says="Its model.")
    codex_state_dir: PathSetting | None = _variable("DELEGATE_CODEX_STATE_DIR", says="Another place for Codex job state.")
    codex_max_concurrent: Count = _variable("DELEGATE_CODEX_MAX_CONCURRENT", 8, says="Codex jobs at once.")
    codex_max_per_project: Count = _variable("DELEGATE_CODEX_MAX_PER_PROJECT", 6, says="Of these, per repository.")
    codex_max_queue: Count = _variable("DELEGATE_CODEX_MAX_QUEUE", 32, says="Codex jobs waiting.")
    codex_stagger_seconds: Seconds = _variable("DELEGATE_CODEX_STAGGER_S", 2.5, says="Between two launches.")
    codex_quota_warn: Annotated[float, Field(ge=0, le=100)] = _variable("DELEGATE_CODEX_QUOTA_WARN", 85, says="Percent of the week that warns.")
    codex_quota_refuse: Annotated[float, Field(ge=0, le=100)] | None = _variable(
        "DELEGATE_CODEX_QUOTA_REFUSE_PCT", says="Percent of the week that refuses; unset: never."
    )
    codex_allow_danger: bool = _variable("DELEGATE_CODEX_ALLOW_DANGER", False, says="1 allows sandbox danger-full-access.")
    agy_bin: str = _variable("DELEGATE_AGY_BIN", "agy", says="The Antigravity program.")
    gemini_state_dir: PathSetting | None = _variable("DELEGATE_GEMINI_STATE_DIR", says="Another place for Gemini job state.")
    gemini_max_concurrent: Count = _variable("DELEGATE_GEMINI_MAX_CONCURRENT", 4, says="Gemini jobs at once.")
    gemini_max_queue: Count = _variable("DELEGATE_GEMINI_MAX_QUEUE", 32, says="Gemini jobs waiting.")
    gemini_allow_danger: bool = _variable("DELEGATE_GEMINI_ALLOW_DANGER", False, says="1 allows Gemini jobs at all.")
    dsh_launcher: str = _variable("DELEGATE_DSH_LAUNCHER", "dsh-herdr.sh", says="The dsh launcher.")
    dsh_state_dir: PathSetting | None = _variable("DELEGATE_DSH_STATE_DIR", says="Another place for dsh job state.")
    dsh_max_concurrent: Count = _variable("DELEGATE_DSH_MAX_CONCURRENT", 2, says="dsh jobs at once.")
    dsh_max_per_project: Count = _variable("DELEGATE_DSH_MAX_PER_PROJECT", 2, says="Of these, per repository.")
    dsh_max_queue: Count = _variable("DELEGATE_DSH_MAX_QUEUE", 16, says="dsh jobs waiting.")
    dsh_stagger_seconds: Seconds = _variable("DELEGATE_DSH_STAGGER_S", 5, says="Between two launches.")
    dsh_models_file: PathSetting | None = _variable(
        "DELEGATE_DSH_MODELS_FILE", says="Models dsh may use; unset means ~/.config/neola-lab/dsh-models.json."
    )


VARIABLES: dict[str, str] = {str(field.alias): name for name, field in Variables.model_fields.items()}


class Settings(Variables):
    """What one process knows of its surroundings, read once. Never printed whole: `environ` holds keys."""

    home: Home
    cwd: Path
    user_home: Path | None = Field(description="None where the environment does not say.")
    environ: Mapping[str, str] = Field(repr=False, description="The environment with `.env` beneath it, for `env:NAME`.")
    from_env_file: frozenset[str] = Field(frozenset(), description="Variables whose value comes from `.env`.")
    ceilings: Mapping[str, int] = Field(default_factory=dict, description="DELEGATE_CONCURRENCY_<key> -> slots.")
    catalogue: ConfigFile = ConfigFile()
    backends: BackendsFile = BackendsFile()
    warnings: tuple[str, ...] = ()

    @property
    def isolated(self) -> bool:
        """Whether the tests' safety net is on (the variable is present, even empty)."""
        return "DELEGATE_TEST_ISOLATION" in self.environ

    @property
    def global_agents_dir(self) -> Path:
        return self.agents_dir or (self.user_home or self.home.root) / ".claude" / "agents"

    @property
    def state_dirs(self) -> tuple[Path, ...]:
        """Every folder that holds state of ours: no agent may work above, in or below one."""
        moved = (self.codex_state_dir, self.gemini_state_dir, self.dsh_state_dir)
        return (self.home.root, self.home.config_file.parent, *(folder for folder in moved if folder))


def load_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Settings from the environment (the process's own by default), `.env` in `cwd`, and `delegate.toml`.

    Touches nothing but these files. Raises UsageError in one line that names the variable or the file, table and key, and
    what is allowed there; the value of a secret is never shown.
    """
    cwd = cwd or Path.cwd()
    given = dict(os.environ if environ is None else environ)
    from_file, refused = _env_file(cwd / ".env", given)
    merged = {**from_file, **given}
    home = home_from(merged)
    catalogue = read_config(home.config_file)
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
            "warnings": (*refused, *_misspelt(merged)),
        },
        context={"environ": merged, "cwd": cwd},
    )


def _env_file(path: Path, given: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        content = dotenv_values(path, interpolate=False, encoding="utf-8-sig") if path.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {error}") from error
    new = {name: value for name, value in content.items() if value and not given.get(name)}
    refused = sorted(name for name in new if NOT_FROM_ENV_FILE.fullmatch(name) and name.startswith(("DELEGATE_", "PREFECT_")))
    warnings = tuple(f"{path}: {name} is ignored there; set it in the environment or in delegate.toml" for name in refused)
    return {name: value for name, value in new.items() if not NOT_FROM_ENV_FILE.fullmatch(name)}, warnings


def _variables(environ: Mapping[str, str], catalogue: ConfigFile, home: Home, cwd: Path) -> Variables:
    in_file = dict(catalogue.settings)
    for name in ("default_model", "local_paths", "local_hosts"):
        if value := getattr(catalogue, name):
            in_file.setdefault(name, value)
    _validated(in_file, {"environ": environ, "cwd": home.config_file.parent}, f"{home.config_file}: [settings] ")
    set_here = {name: environ[name] for name in VARIABLES if environ.get(name)}
    from_environment = _validated(set_here, {"environ": environ, "cwd": cwd}, "")
    from_file = _validated(in_file, {"environ": environ, "cwd": home.config_file.parent}, "")
    return from_file.model_copy(update=from_environment.model_dump(exclude_unset=True))


def _validated(values: Mapping[str, Any], context: Mapping[str, Any], where: str) -> Variables:
    try:
        return Variables.model_validate(values, context=dict(context), by_alias=not where, by_name=bool(where))
    except ValidationError as error:
        raise UsageError("; ".join(f"{where}{_said(entry)}" for entry in error.errors())) from None


def _said(entry: Any) -> str:
    name, kind, message = str(entry["loc"][0]), entry["type"], str(entry["msg"]).removeprefix("Value error, ")
    field = Variables.model_fields.get(VARIABLES.get(name, name))
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(name, Variables.model_fields, 1)
        return f"{name}: unknown key" + (f", did you mean {near[0]!r}?" if near else "")
    shown = f"={entry['input']!r}" if field is not None and field.repr and not name.endswith(("URL", "url")) else ""
    return f"{name}{shown}: {message}"


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
    strange = sorted(n for n in environ if n.startswith("DELEGATE_") and n not in {*VARIABLES, "DELEGATE_HOME"} and not _CEILING.fullmatch(n))
    near = ((name, difflib.get_close_matches(name, VARIABLES, 1, cutoff=0.9)) for name in strange)
    return tuple(f"{name} is not a variable of ours: did you mean {match[0]}?" for name, match in near if match)
