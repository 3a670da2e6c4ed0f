"""Tool calls that a model writes as text, because its server does not know its way of calling.

Used only for models that the catalogue marks so, when tools were offered and the reply holds no real call.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from delegation.chat.messages import ToolSpec

Found = tuple[str, dict[str, Any]]
_MARKS = re.compile(r"<tool_call>|</tool_call>|<function=|<invoke\s+name=|<arg_key>", re.I)
_FUNCTION = re.compile(r"(?:<tool_call>\s*)?<function=([\w.-]+)>(.*?)</function>(?:\s*</tool_call>)?", re.I | re.S)
_PARAMETER = re.compile(r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.I | re.S)
_INVOKE = re.compile(r"<invoke\s+name=\"?([\w.-]+)\"?>(.*?)</invoke>", re.I | re.S)
_INVOKE_PARAMETER = re.compile(r"<parameter\s+name=\"?([\w.-]+)\"?[^>]*>\n?(.*?)\n?</parameter>", re.I | re.S)
_ARG_PAIRS = re.compile(r"<tool_call>\s*([\w.-]+)\s*((?:<arg_key>.*?</arg_value>\s*)*)</tool_call>", re.I | re.S)
_ARG_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.I | re.S)
_JSON = re.compile(r"(?:<tool_call>)\s*(\{.*?\})\s*(?:</tool_call>|$)", re.I | re.S)
_FENCED = re.compile(r"```(?:json|tool_call|tool_code)?\s*(\{.*?\})\s*```", re.I | re.S)


@dataclass(frozen=True)
class TextCalls:
    """The calls found and the text that is left without them."""

    calls: tuple[Found, ...]
    rest: str


def looks_like_call(text: str) -> bool:
    """Whether the text holds the marks of a call in any known way of writing one."""
    return _MARKS.search(text) is not None


def calls_in_text(text: str, tools: Sequence[ToolSpec]) -> TextCalls:
    """Calls of the tools offered. A call with unreadable arguments, or of another tool, stays text."""
    schemas = {tool.name: tool.parameters for tool in tools}
    for pattern, read in _WAYS:
        matches = [(found, read(found)) for found in pattern.finditer(text)]
        usable = [(found, call) for found, call in matches if call is not None and call[0] in schemas]
        if usable:
            calls = tuple((name, _typed(values, schemas[name])) for _, (name, values) in usable)
            return TextCalls(calls, _without(text, [found.span() for found, _ in usable]))
    return TextCalls((), text)


def _typed(values: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Texts that the schema wants as something else, read as JSON; a text that is wanted stays as it stands."""
    kinds = {name: part.get("type", "string") for name, part in schema.get("properties", {}).items()}
    return {name: value if kinds.get(name) == "string" else _value(value) for name, value in values.items()}


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    return text.strip()


def _tagged(parameter: re.Pattern[str]) -> Callable[[re.Match[str]], Found | None]:
    def read(found: re.Match[str]) -> Found | None:
        return found.group(1), dict(parameter.findall(found.group(2)))

    return read


def _value(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _from_json(found: re.Match[str]) -> Found | None:
    try:
        call = json.loads(found.group(1))
    except ValueError:
        return None
    arguments = call.get("arguments", call.get("parameters", call.get("input", {})))
    if isinstance(arguments, str):
        arguments = _value(arguments)
    name = call.get("name")
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


_WAYS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Found | None]], ...] = (
    (_FUNCTION, _tagged(_PARAMETER)),
    (_INVOKE, _tagged(_INVOKE_PARAMETER)),
    (_ARG_PAIRS, _tagged(_ARG_PAIR)),
    (_JSON, _from_json),
    (_FENCED, _from_json),
)
