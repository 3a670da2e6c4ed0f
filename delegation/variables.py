"""Every setting there is: its variable, its name under `[settings]` of delegate.toml, its type, its default."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from delegation.budgets import Dollars, known_zone
from delegation.card import Confinement
from delegation.errors import UsageError
from delegation.models.addresses import check_local_host, checked_url
from delegation.places import expanded

DEFAULT_LOCAL_URL = "http://localhost:4000/v1/messages"
DEFAULT_LOCAL_MODEL = "local-qwen-3-6-35b"


def _path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str) or info.context is None:
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
Paths = Annotated[
    tuple[PathSetting, ...], BeforeValidator(lambda v: tuple(v.split(os.pathsep)) if isinstance(v, str) else v)
]
Address = Annotated[str, BeforeValidator(_address)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _variable(name: str, default: Any = None, *, secret: bool = False, says: str) -> Any:
    return Field(default, alias=name, repr=not secret, description=says)


class Variables(BaseModel):
    """The alias of a field is its environment variable. Validation needs `environ` and `cwd` as context, for paths."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # Models
    local_url: Address | None = _variable(
        "DELEGATE_LOCAL_URL", says=f"Default endpoint; unset means {DEFAULT_LOCAL_URL}."
    )
    local_key: str | None = _variable("DELEGATE_LOCAL_KEY", secret=True, says="Key of the default endpoint.")
    local_model: str | None = _variable(
        "DELEGATE_LOCAL_MODEL", says=f"Default model; unset means {DEFAULT_LOCAL_MODEL}."
    )
    coding_model: str | None = _variable(
        "DELEGATE_LOCAL_CODING_MODEL", says="Model of coding agents when none is named."
    )
    base_url: Address | None = _variable(
        "DELEGATE_BASE_URL", says="OpenAI-format endpoint of calls that name no backend."
    )
    api_key: str | None = _variable("DELEGATE_API_KEY", secret=True, says="Its key.")
    model: str | None = _variable("DELEGATE_MODEL", says="Its model.")
    default_model: str | None = _variable("DELEGATE_DEFAULT_MODEL", says="Alias used when a card names none.")
    models_file: PathSetting | None = _variable("DELEGATE_MODELS_FILE", says="A models.json at another place.")
    discover: bool = _variable("DELEGATE_DISCOVER", True, says="Look for a local server when no model is configured.")
    resend_reasoning: Literal["auto", "1", "0"] = _variable(
        "DELEGATE_RESEND_REASONING",
        "auto",
        says="Earlier reasoning goes back to: deepseek-* (auto), all (1), none (0).",
    )
    local_hosts: Hosts = _variable("DELEGATE_LOCAL_HOSTS", (), says="Private hosts and networks that count as local.")
    local_paths: Paths = _variable("DELEGATE_LOCAL_PATHS", (), says="Folders whose work stays in the lane 'local'.")
    provider_allowed_hosts: Words = _variable(
        "DELEGATE_PROVIDER_ALLOWED_HOSTS",
        (),
        says="The only hosts that `delegate_to_provider` may call; unset: no list.",
    )
    # Gateway
    gateway: Literal["litellm", "bifrost"] = _variable(
        "DELEGATE_GATEWAY", "litellm", says="What answers at the default endpoint."
    )
    bifrost_url: str | None = _variable("DELEGATE_BIFROST_URL", says="Base address of Bifrost.")
    bifrost_local_url: str | None = _variable(
        "DELEGATE_BIFROST_LOCAL_URL", says="Another base for local-* and ornith*."
    )
    bifrost_api: str = _variable(
        "DELEGATE_BIFROST_API", "litellm", says="'litellm': both formats; 'openai': chat completions for all."
    )
    bifrost_key_local: str | None = _variable(
        "DELEGATE_BIFROST_VK_LOCAL", secret=True, says="Virtual key for local aliases."
    )
    bifrost_key_code: str | None = _variable(
        "DELEGATE_BIFROST_VK_CODE", secret=True, says="Virtual key for the others."
    )
    # Work
    agents_dir: PathSetting | None = _variable(
        "DELEGATE_LOCAL_AGENTS_DIR", says="Markdown agents; unset means ~/.claude/agents."
    )
    max_turns_local: Annotated[int, Field(ge=1, le=150)] = _variable(
        "DELEGATE_MAX_TURNS_LOCAL", 25, says="Turns in the lane 'local'."
    )
    max_turns_cloud: Annotated[int, Field(ge=1, le=150)] = _variable(
        "DELEGATE_MAX_TURNS_CLOUD", 60, says="Turns elsewhere."
    )
    max_turns_cap: Annotated[int, Field(ge=1, le=150)] = _variable(
        "DELEGATE_MAX_TURNS_CAP", 150, says="No card gets more."
    )
    timeout_seconds: Count = _variable("DELEGATE_TIMEOUT_SECONDS", 3600, says="Time for the agent.")
    max_tokens: Count = _variable("DELEGATE_MAX_TOKENS", 65_536, says="Output tokens per reply.")
    confinement: Confinement = _variable("DELEGATE_CONFINEMENT", "auto", says="Operating-system sandbox.")
    network: bool = _variable("DELEGATE_NETWORK", True, says="Network for agents' shells outside the lane 'local'.")
    verify: Literal["propose", "auto"] = _variable(
        "DELEGATE_VERIFY", "propose", says="A verify command found in a repository: named only, or run too (auto)."
    )
    run_bash: bool = _variable("DELEGATE_RUN_BASH", True, says="0 takes the shell away from agents.")
    max_processes: Annotated[int, Field(ge=16, le=100_000)] = _variable(
        "DELEGATE_MAX_PROCESSES", 512, says="Processes that one command of an agent may have at once."
    )
    allow_path_escape: bool = _variable(
        "DELEGATE_ALLOW_PATH_ESCAPE", False, says="1 lets file tools leave the worktree."
    )
    env_passthrough: Words = _variable("DELEGATE_ENV_PASSTHROUGH", (), says="Variables that agents' commands also get.")
    worktree_keep_days: Seconds = _variable(
        "DELEGATE_WORKTREE_KEEP_DAYS", 7, says="Days that the tree of a failed or cancelled delegation stays."
    )
    worktree_budget_gb: Seconds = _variable(
        "DELEGATE_WORKTREE_BUDGET_GB", 20, says="Disk space (GiB) of all trees; above it ended ones go earlier."
    )
    record_keep_days: Seconds | None = _variable(
        "DELEGATE_RECORD_KEEP_DAYS", says="Days that the record of an ended delegation stays; unset: for ever."
    )
    record_keep_count: Annotated[int, Field(ge=0)] | None = _variable(
        "DELEGATE_RECORD_KEEP_COUNT", says="This many of the newest records stay; unset: all."
    )
    record_budget_gb: Seconds | None = _variable(
        "DELEGATE_RECORD_BUDGET_GB", says="Disk space (GiB) of all records; unset: no limit."
    )
    # Queues and limits
    max_queue: Count = _variable("DELEGATE_MAX_QUEUE", 256, says="Delegations waiting or running at once.")
    max_concurrency: Count = _variable(
        "DELEGATE_MAX_CONCURRENCY", 4, says="`delegate task`, `agentic` and `batch` at once."
    )
    slot_wait_seconds: Seconds = _variable(
        "DELEGATE_SLOT_WAIT_SECONDS", 0, says="Wait in a full pool before failing over."
    )
    failover_grace_seconds: Seconds = _variable("DELEGATE_FAILOVER_GRACE", 10, says="Wait for a fallback's slot.")
    failover_cooldown_seconds: Seconds = _variable(
        "DELEGATE_FAILOVER_COOLDOWN", 20, says="A model's cooldown up to this long is sat out before failing over."
    )
    longest_wait_seconds: Seconds = _variable(
        "DELEGATE_LONGEST_WAIT", 43_200, says="Longest wait for a model's cooldown or quota; beyond it the work ends."
    )
    # Notifications
    notify: str | None = _variable(
        "DELEGATE_NOTIFY", says="Shell command that is run when a delegation, a night or a comparison has ended."
    )
    notify_seconds: Annotated[float, Field(gt=0, le=600)] = _variable(
        "DELEGATE_NOTIFY_SECONDS", 30, says="Time that it may take."
    )
    # Budgets
    budget_per_day_usd: Dollars | None = _variable("DELEGATE_BUDGET_PER_DAY_USD", says="Dollars that a day may cost.")
    budget_per_repository_per_day_usd: Dollars | None = _variable(
        "DELEGATE_BUDGET_PER_REPOSITORY_PER_DAY_USD", says="Of these, for one repository."
    )
    budget_per_night_usd: Dollars | None = _variable(
        "DELEGATE_BUDGET_PER_NIGHT_USD", says="Dollars that a night shift may cost."
    )
    budget_allow_unknown_cost: bool = _variable(
        "DELEGATE_BUDGET_ALLOW_UNKNOWN_COST",
        False,
        says="1: go on under a budget although the cost of a reply is unknown.",
    )
    budget_time_zone: Annotated[str, AfterValidator(known_zone)] | None = _variable(
        "DELEGATE_BUDGET_TIME_ZONE", says="Where a day begins, such as Europe/Berlin; unset means this machine's zone."
    )
    # Stack
    database_url: str | None = _variable("DELEGATE_DATABASE_URL", secret=True, says="PostgreSQL of your own.")
    database: Literal["auto", "embedded", "sqlite"] = _variable(
        "DELEGATE_DATABASE", "auto", says="What the stack keeps its tables in."
    )
    server_port: Annotated[int, Field(ge=1, le=65_535)] | None = _variable(
        "DELEGATE_SERVER_PORT", says="Port of the Prefect server; unset means a free one."
    )
    launcher: bool = _variable("DELEGATE_LAUNCHER", True, says="0 starts a whole interpreter for each flow run.")
    prefect_api_url: Address | None = _variable("PREFECT_API_URL", says="A Prefect server of your own.")
    prefect_auth_string: str | None = _variable("PREFECT_API_AUTH_STRING", secret=True, says="Its user:password.")
    prefect_api_key: str | None = _variable("PREFECT_API_KEY", secret=True, says="Its key.")
    toolsets: Words = _variable("DELEGATE_TOOLSETS", (), says="MCP tools to offer; unset means all that can work.")
    dispatch_log: bool = _variable("DELEGATE_LOG", True, says="0 writes no dispatch log.")
    reader_config: PathSetting | None = _variable("DELEGATE_MCP_CONFIG", says="JSON config of the reading lane.")
    session_keep_days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] = _variable(
        "DELEGATE_SESSION_KEEP_DAYS", 30, says="Days that a reading session stays after its last question."
    )
    wait_interval_seconds: Annotated[float, Field(gt=0)] = _variable(
        "DELEGATE_WAIT_INTERVAL", 5, says="Poll of `delegate-wait`."
    )
    test_isolation: str | None = _variable(
        "DELEGATE_TEST_ISOLATION", says="Present, even empty: the tests' safety net is on."
    )
    test_isolation_root: PathSetting | None = _variable(
        "DELEGATE_TEST_ISOLATION_ROOT", says="Everything must lie below it."
    )
    # Command-line agents
    codex_bin: str = _variable("DELEGATE_CODEX_BIN", "codex", says="The Codex program.")
    codex_model: str = _variable("DELEGATE_CODEX_MODEL", "gpt-6.1-terra", says="Its model.")
    codex_state_dir: PathSetting | None = _variable(
        "DELEGATE_CODEX_STATE_DIR", says="Another place for Codex job state."
    )
    codex_max_concurrent: Count = _variable("DELEGATE_CODEX_MAX_CONCURRENT", 8, says="Codex jobs at once.")
    codex_max_per_project: Count = _variable("DELEGATE_CODEX_MAX_PER_PROJECT", 6, says="Of these, per repository.")
    codex_max_queue: Count = _variable("DELEGATE_CODEX_MAX_QUEUE", 32, says="Codex jobs waiting.")
    codex_stagger_seconds: Seconds = _variable("DELEGATE_CODEX_STAGGER_S", 2.5, says="Between two launches.")
    codex_quota_warn: Annotated[float, Field(ge=0, le=100)] = _variable(
        "DELEGATE_CODEX_QUOTA_WARN", 85, says="Percent of the week that warns."
    )
    codex_quota_refuse: Annotated[float, Field(ge=0, le=100)] | None = _variable(
        "DELEGATE_CODEX_QUOTA_REFUSE_PCT", says="Percent of the week that refuses; unset: never."
    )
    codex_allow_danger: bool = _variable(
        "DELEGATE_CODEX_ALLOW_DANGER", False, says="1 allows sandbox danger-full-access."
    )
    agy_bin: str = _variable("DELEGATE_AGY_BIN", "agy", says="The Antigravity program.")
    gemini_state_dir: PathSetting | None = _variable(
        "DELEGATE_GEMINI_STATE_DIR", says="Another place for Gemini job state."
    )
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
