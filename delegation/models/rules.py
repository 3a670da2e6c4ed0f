"""By which rule an alias got its endpoint, in words; and the one endpoint that nobody has chosen."""

from delegation.errors import UsageError
from delegation.models import lanes
from delegation.models.addresses import base_url
from delegation.models.discovery import listens
from delegation.models.entry import Entry
from delegation.models.providers import provider_of
from delegation.settings import Settings


def rule_of(entry: Entry, settings: Settings) -> str:
    """Who says that this model answers there."""
    alias = entry.endpoint.alias
    match entry.covered_by:
        case "discovered":
            return "found on this machine"
        case "rule":
            return f"{_prefix_rule(alias)} go to the default endpoint, {_whose(settings)}"
        case "default":
            return f"the default endpoint, {_whose(settings)}"
        case "catalogue" if alias in settings.catalogue.models:
            return f"[models.{alias}] of {settings.home.config_file}"
        case "catalogue" if alias in settings.backends:
            return f"{alias!r} of {settings.backends.path}"
        case "catalogue" if settings.base_url and _at_base_url(entry, settings.base_url):
            return "DELEGATE_BASE_URL"
        case "catalogue":
            provider = provider_of(alias)
            return f"{provider.key_variable} is set" if provider else "the catalogue"


def refuse_unchosen(entry: Entry, settings: Settings) -> None:
    """Raises UsageError where the model would go to the built-in default endpoint, which nobody named, and nothing
    listens there: a mistyped alias would wait for a server that does not exist."""
    if entry.covered_by not in ("rule", "default") or settings.local_url or settings.gateway == "bifrost":
        return
    url = entry.endpoint.base_url
    if listens(url):
        return
    alias = entry.endpoint.alias
    raise UsageError(
        f"model {alias!r} is in no catalogue, so it would go to {url}, the built-in default endpoint, and nothing "
        f"listens there: start a server, set DELEGATE_LOCAL_URL, write [models.{alias}] into "
        f"{settings.home.config_file}, or name another of `delegate models`"
    )


def _at_base_url(entry: Entry, written: str) -> bool:
    return entry.endpoint.base_url == base_url(written, "openai_chat", "DELEGATE_BASE_URL")


def _prefix_rule(alias: str) -> str:
    known = (*lanes.OPENAI_PREFIXES, *lanes.LOCAL_PREFIXES, "glm-")
    prefix = next((prefix for prefix in known if alias.lower().startswith(prefix)), alias)
    return f"names that begin with {prefix!r}"


def _whose(settings: Settings) -> str:
    if settings.gateway == "bifrost":
        return "the gateway of DELEGATE_BIFROST_URL"
    return "DELEGATE_LOCAL_URL" if settings.local_url else "which is the built-in one: DELEGATE_LOCAL_URL is not set"
