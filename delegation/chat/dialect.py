"""How one endpoint departs from the letter of its format, worked out from its catalogue entry."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from delegation.request import Endpoint

_DEFAULT_KEY = "DELEGATE_LOCAL_KEY"  # of an endpoint that may be any proxy: it gets the key under both names


@dataclass(frozen=True)
class Dialect:
    """Differences that decide what is sent.

    `provider` names who signed reasoning and may get it back. `reasoning_field` is the request's name for earlier
    reasoning (newer vLLM reads only `reasoning`). `resend_reasoning` and `reasoning_always` (an empty text where there
    was none) say when it is sent; `unsigned_thinking` that a thinking block needs no signature.
    """

    provider: str
    reasoning_field: str = "reasoning_content"
    resend_reasoning: bool = False
    reasoning_always: bool = False
    unsigned_thinking: bool = False
    cache_marks: bool = False
    output_limit_field: str = "max_tokens"
    ask_for_cost: bool = False
    bearer_beside_key: bool = True
    key_beside_bearer: bool = False
    text_tool_calls: bool = False


def dialect_of(endpoint: Endpoint) -> Dialect:
    """The dialect of a catalogue entry."""
    host = urlsplit(endpoint.base_url).hostname or ""
    model = endpoint.model.lower()
    deepseek = "deepseek" in model or "deepseek" in host
    resend = endpoint.resend_reasoning and not _refuses_reasoning(model)
    return Dialect(
        provider=f"{urlsplit(endpoint.base_url).netloc.rpartition('@')[2]}/{endpoint.model}",
        reasoning_field=endpoint.reasoning_field,
        resend_reasoning=resend,
        reasoning_always=resend and deepseek,
        unsigned_thinking=resend and host != "api.anthropic.com" and "claude" not in model,
        cache_marks=_takes_cache_marks(endpoint, host, model),
        output_limit_field=_output_limit_field(host, model),
        ask_for_cost=host == "openrouter.ai",
        key_beside_bearer=endpoint.key_name == _DEFAULT_KEY,
        bearer_beside_key=host != "api.anthropic.com",
        text_tool_calls=endpoint.text_tool_calls,
    )


def _refuses_reasoning(model: str) -> bool:
    """DeepSeek R1 answers 400 when it is given its own earlier reasoning."""
    return re.search(r"deepseek[-_/]?(reasoner|r1)\b", model) is not None


def _takes_cache_marks(endpoint: Endpoint, host: str, model: str) -> bool:
    if endpoint.format != "anthropic_messages":
        return False
    known = "claude" in model or host in ("api.anthropic.com", "api.z.ai")
    return known if endpoint.prompt_cache is None else endpoint.prompt_cache


def _output_limit_field(host: str, model: str) -> str:
    """OpenAI's reasoning models refuse `max_tokens`; other servers do not know the newer name."""
    own = host == "api.openai.com" or re.match(r"(openai/)?(gpt-([5-9]|\d\d)|o\d)(\b|[.-])", model) is not None
    return "max_completion_tokens" if own else "max_tokens"
