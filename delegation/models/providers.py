"""Five providers whose own key variable is enough: with it set, their models are ready under these names."""

from collections.abc import Mapping
from dataclasses import dataclass

from delegation.models.addresses import base_url, host_of, is_loopback
from delegation.request import WireFormat


@dataclass(frozen=True)
class Provider:
    """`models` are ready names; any other name with one of the `prefixes` is sent on as it is."""

    name: str
    key_variable: str
    url_variable: str
    url: str
    format: WireFormat
    prefixes: tuple[str, ...]
    models: tuple[str, ...]
    sends: Mapping[str, str]
    drops: str = ""

    def wire_name(self, alias: str) -> str:
        """The name on the wire: one stated for its prefix, else the alias without what only says the provider."""
        stated = [name for prefix, name in self.sends.items() if alias.startswith(prefix)]
        return stated[0] if stated else alias.removeprefix(self.drops)

    def address(self, environ: Mapping[str, str]) -> str:
        """Where it answers; the provider's usual variable moves it, as its own clients do."""
        return base_url(environ.get(self.url_variable) or self.url, self.format, self.url_variable)


PROVIDERS = (
    Provider(
        "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1",
        "anthropic_messages", ("claude-",), ("claude-sonnet-4-6",), {},
    ),
    Provider(
        "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1",
        "openai_chat", ("gpt-", "openai-"), ("gpt-6-luna", "gpt-6-sol"), {}, "openai-",
    ),
    Provider(
        "deepseek", "DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "https://api.deepseek.com/v1",
        "openai_chat", ("deepseek-",), ("deepseek-v4-flash",), {},
    ),
    Provider(
        "zai", "ZAI_API_KEY", "ZAI_BASE_URL", "https://api.z.ai/api/anthropic/v1",
        "anthropic_messages", ("glm-",), ("glm-coding-plan", "glm-coding-plan-think", "glm-coding-plan-max"),
        {"glm-coding-plan": "glm-5.2"},
    ),
    Provider(
        "openrouter", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1",
        "openai_chat", ("openrouter/",), ("openrouter/auto",), {"openrouter/auto": "openrouter/auto"}, "openrouter/",
    ),
)  # fmt: skip


def provider_of(alias: str) -> Provider | None:
    return next((provider for provider in PROVIDERS if alias.lower().startswith(provider.prefixes)), None)


def belongs_together(key_variable: str, url: str) -> bool:
    """Whether a key may go where a file of the current folder says: this machine, or the key's own provider.

    Otherwise a cloned repository could name an address and any variable, and so have the user's keys sent to it.
    """
    own = {host_of(provider.url) for provider in PROVIDERS if provider.key_variable == key_variable}
    return is_loopback(url) or (url.startswith("https://") and host_of(url) in own)
