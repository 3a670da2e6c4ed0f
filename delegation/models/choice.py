"""Which model does a card: the caller's word, then a variable for coding agents, the agent's file, the default."""

from delegation.card import Card, Lane
from delegation.errors import UsageError
from delegation.models import lanes
from delegation.models.catalogue import Catalogue, require_key
from delegation.models.endpoints import from_provider_url
from delegation.models.entry import Entry
from delegation.request import Agent
from delegation.settings import Settings

CODING_AGENTS = ("coder", "webdev", "backend", "devops", "frontend", "fullstack", "security")
_CLAUDE_CODES_WORDS = ("inherit", "default", "best", "sonnet", "opus", "haiku", "opusplan", "sonnet[1m]", "opus[1m]")


def entry_for(
    card: Card,
    agent: Agent,
    lane: Lane | None,
    models: Catalogue,
    settings: Settings,
    provider_key: str | None = None,
) -> tuple[Entry, tuple[str, ...]]:
    """The model, and what the caller should be told about the choice.

    Raises UsageError for one that is unknown, has no key, is of another lane, or whose provider's key is not kept.
    """
    wish: tuple[str, ...] = ()
    if card.provider_url is not None:
        entry = _entry_of_provider(card, card.provider_url, provider_key, settings)
    elif card.backend is not None:
        entry = models.backend(card.backend, card.model)
    elif card.model is not None:
        entry = models.entry(card.model)
    elif settings.coding_model and agent.name in CODING_AGENTS:
        entry = models.entry(settings.coding_model)
    elif agent.model and (wished := models.wished(agent.model, lane)):
        entry = wished
    else:
        entry, wish = models.entry(models.default_alias(lane)), _wish_refused(agent)
    lanes.check_lane(lane, entry)
    require_key(entry)
    return entry, wish


def _entry_of_provider(card: Card, url: str, key: str | None, settings: Settings) -> Entry:
    if key is None:
        raise UsageError(
            f"the key given for {url} is not kept: call delegate_to_provider again, or name a model of your catalogue"
        )
    if card.model is None:
        raise UsageError("model is missing: name the model as the provider calls it")
    return from_provider_url(url, card.model, settings, key=key)


def _wish_refused(agent: Agent) -> tuple[str, ...]:
    """Claude Code's own names for its models say nothing to us, and most agent files hold one."""
    if agent.model is None or agent.model.lower() in _CLAUDE_CODES_WORDS:
        return ()
    return (
        f"agent {agent.name!r} asks for model {agent.model!r}, which is not ready here or is in another lane: "
        "the default model is used",
    )
