"""Lanes: what is pinned to where it is, what is refused, and whether a model may take a card."""

from pathlib import Path

from delegation.card import Lane
from delegation.errors import UsageError
from delegation.models.config_file import read_repository_file
from delegation.models.entry import Entry
from delegation.models.pins import is_pinned_by_history
from delegation.request import WireFormat
from delegation.settings import Settings

LOCAL_PREFIXES = ("local-", "ornith")
PINNED_PREFIXES = (*LOCAL_PREFIXES, "codex", "gpt-")
OPENAI_PREFIXES = ("deepseek-", "openai-", "gpt-", "qwen-")
_FLAT_PLAN_PREFIXES = ("glm-", "qwen-3-8-max")
_FORBIDDEN = ("mimo", "xiaomi")
_RETIRED = {"deepseek-v4-pro": "deepseek-v4-flash"}


def format_by_prefix(alias: str) -> WireFormat:
    """OpenAI chat for the four prefixes, Anthropic Messages for all others; `local-qwen-*` is one of the others."""
    return "openai_chat" if alias.lower().startswith(OPENAI_PREFIXES) else "anthropic_messages"


def has_known_prefix(alias: str) -> bool:
    """Whether the prefix alone says what kind of model this is, so that the default endpoint is asked for it."""
    return alias.lower().startswith((*OPENAI_PREFIXES, *LOCAL_PREFIXES, "glm-"))


def is_local_name(alias: str) -> bool:
    return alias.lower().startswith(LOCAL_PREFIXES)


def is_pinned(alias: str, lane: Lane) -> bool:
    """Whether nothing else may answer for this model and it may answer for nothing else."""
    return lane in ("local", "subscription_cli") or alias.lower().startswith(PINNED_PREFIXES)


def lane_by_name(alias: str, *, flat_plan: bool = False) -> Lane:
    """The lane of an alias by its name alone. An address says nothing: a proxy to a cloud is on loopback too."""
    if is_local_name(alias):
        return "local"
    if flat_plan or alias.lower().startswith(_FLAT_PLAN_PREFIXES):
        return "flat_plan"
    return "subscription_cli" if alias.lower().startswith("codex") else "metered"


def refuse_by_name(*names: str) -> None:
    """Raises UsageError for models whose terms forbid automated use, under whatever vendor's prefix."""
    for name in names:
        if any(part.startswith(_FORBIDDEN) for part in name.lower().split("/")):
            raise UsageError(f"model {name!r} is refused: its plan's terms forbid automated use; choose another model")


def refuse_retired(alias: str) -> None:
    if successor := _RETIRED.get(alias.lower()):
        raise UsageError(f"model {alias!r} was withdrawn by its provider: use {successor!r}")


def check_lane(wanted: Lane | None, entry: Entry) -> None:
    """Raises UsageError when the card's lane does not take this model.

    'local' takes a model only where the catalogue, the endpoint's kind or the user says that the work ends there:
    behind a proxy on loopback may be anything.
    """
    alias, lane = entry.endpoint.alias, entry.endpoint.lane
    if wanted is None or (wanted == lane and (wanted != "local" or entry.upstream_local)):
        return
    if wanted == lane == "local":
        raise UsageError(
            f"lane 'local' refuses model {alias!r}: a proxy at {entry.endpoint.base_url} may pass the work on; "
            f'write lane = "local" (or upstream_local = true) into [models.{alias}] if it does not'
        )
    remedy = (
        f'; if its work ends on this machine or network, write lane = "local" (or upstream_local = true) into '
        f"[models.{alias}]"
        if wanted == "local"
        else ""
    )
    raise UsageError(f"lane {wanted!r} refuses model {alias!r}: its lane is {lane!r}{remedy}")


def lane_of_repository(root: Path, settings: Settings, base_commit: str | None = None) -> Lane | None:
    """'local' where the repository's own `.delegate.toml` or `local_paths` of the settings demands it: the file as it
    is here, at HEAD, at the base commit or in the repository's main worktree. Raises UsageError for one that cannot be
    understood."""
    if read_repository_file(root).lane == "local":
        return "local"
    marked = [folder.resolve() for folder in settings.local_paths]
    if any(root.is_relative_to(folder) or folder.is_relative_to(root) for folder in marked):
        return "local"
    return "local" if is_pinned_by_history(root, base_commit) else None
