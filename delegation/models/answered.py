"""Which model really answered, and whether that is another one than was asked for.

A name that differs proves nothing: aliases are mapped to other spellings on purpose, and a server with one model gives
its own name whatever was asked. So a gateway's own word counts first, and names only where they cannot mean the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from delegation.request import Endpoint

_BIFROST = "x-bifrost-routing-info-"
_FALLBACK_MODEL, _ALIAS_MODEL, _MODEL = (
    f"{_BIFROST}server-side-fallback-model",
    f"{_BIFROST}alias-model-id",
    f"{_BIFROST}model",
)
_FAMILIES = (
    "qwen", "glm", "deepseek", "gpt", "claude", "llama", "mistral", "gemini", "gemma", "minimax", "kimi", "grok", "phi",
    "command", "nova", "granite", "nemotron", "ornith",
)  # fmt: skip
_TIERS = frozenset(
    ("flash", "pro", "mini", "nano", "sonnet", "haiku", "opus", "air", "lite", "turbo", "sol", "luna", "terra", "astra")
)


def answering_model(routing: Mapping[str, str], said: str | None) -> str | None:
    """The real model: what the gateway's headers name, else what the answer itself `said`."""
    return routing.get(_FALLBACK_MODEL) or routing.get(_ALIAS_MODEL) or routing.get(_MODEL) or said


def fallback_note(endpoint: Endpoint, answered_by: str | None, routing: Mapping[str, str]) -> str | None:
    """`answered_by: X (requested Y)`, or None where the model that was asked for answered."""
    if answered_by is None:
        return None
    told = _told(routing)
    fell_back = told if told is not None else _cannot_be(endpoint.model, answered_by)
    return f"answered_by: {answered_by} (requested {endpoint.alias})" if fell_back else None


def _told(routing: Mapping[str, str]) -> bool | None:
    """What the gateway says of a fallback; None where it says nothing of where the request went."""
    if _FALLBACK_MODEL in routing or routing.get(f"{_BIFROST}is-fallback", "").lower() == "true":
        return True
    if "x-litellm-attempted-fallbacks" in routing:
        return routing["x-litellm-attempted-fallbacks"] not in ("", "0")
    return False if _MODEL in routing else None


def _cannot_be(requested: str, answered: str) -> bool:
    """Whether the two names are of different families, or of one family and differ in tier or version."""
    asked, given = _parts(requested), _parts(answered)
    if asked.family is None or given.family is None:
        return False
    if asked.family != given.family:
        return True
    if asked.tiers and given.tiers and asked.tiers != given.tiers:
        return True
    return bool(asked.version and given.version) and not (
        asked.version.startswith(given.version) or given.version.startswith(asked.version)
    )


@dataclass(frozen=True)
class _Parts:
    family: str | None
    tiers: frozenset[str]
    version: str


def _parts(name: str) -> _Parts:
    """Family, tier words and digits of a model's name; its vendor and a date behind it do not count."""
    own = re.sub(r"[-@:]?20\d\d-?\d\d-?\d\d.*$", "", name.lower().rsplit("/", 1)[-1])
    family = next((word for word in _FAMILIES if word in own), None)
    words = frozenset(re.findall(r"[a-z]+", own))
    after = own.split(family, 1)[1] if family else ""
    return _Parts(family, words & _TIERS, "".join(re.findall(r"\d+", after)))
