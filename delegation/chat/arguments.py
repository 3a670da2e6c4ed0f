"""Arguments of a tool call, as a model wrote them, into an object that is safe to use."""

import json
import re
from typing import Any, NoReturn

Parsed = tuple[dict[str, Any], str | None, str | None]


def parsed_arguments(text: str) -> list[Parsed]:
    """(object, raw text, problem) of each call in the text: usually one, several when objects are glued together.

    No text means no arguments. A problem says what was wrong in words for the model; one that begins with `cut:`
    means that the text ends too early. The raw text is None where the object says the same.
    """
    stripped = text.strip()
    if not stripped:
        return [({}, None, None)]
    try:
        return [_checked(_loads(stripped), stripped)]
    except json.JSONDecodeError as error:
        glued = _glued(stripped) if error.msg == "Extra data" else None
        return glued or [({}, stripped, _problem(stripped, error))]
    except (ValueError, RecursionError) as error:
        return [({}, stripped, f"the arguments are not usable JSON: {error}")]


def _checked(value: Any, raw: str) -> Parsed:
    if isinstance(value, dict):
        return value, None, None
    return {}, raw, f"the arguments must be a JSON object, not {type(value).__name__}"


def _loads(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _glued(text: str) -> list[Parsed] | None:
    """Several complete objects in a row; None when it is anything else."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    found: list[Parsed] = []
    place = 0
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            found.append(_checked(value, text))
            place = len(text) - len(text[place:].lstrip())
    except (ValueError, RecursionError):
        return None
    return found if all(problem is None for _, _, problem in found) else None


def _problem(text: str, error: json.JSONDecodeError) -> str:
    if is_cut(text, error):
        return "cut: the arguments end too early, so nothing was executed: send smaller parts"
    near = text[max(0, error.pos - 20) : error.pos + 20]
    return f"the arguments are not valid JSON ({error.msg} at character {error.pos}, near {near!r}): send them again"


def is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text is the beginning of valid JSON rather than wrong somewhere."""
    if error.msg.startswith("Unterminated string") or error.pos >= len(text):
        return True
    rest = text[error.pos :]
    if error.msg.startswith("Invalid \\") and re.fullmatch(r"\\?(u[0-9a-fA-F]{0,4})?", rest):
        return True
    number = re.fullmatch(r"-|\.|[eE][+-]?", rest) is not None
    return number or any(word.startswith(rest) for word in ("true", "false", "null"))
