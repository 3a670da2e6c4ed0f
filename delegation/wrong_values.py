"""Values that do not fit, in our words: which one, what was found, what is allowed. The only place that does so.

What is allowed is read from the field's own type, so that a sentence here, a schema and a page say the same.
"""

import difflib
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

Place = tuple[int | str, ...]
_PRIVATE = re.compile(r"(?i).*(key|secret|password|header|cookie|auth|url|environ).*|(.*_)?token")
_LONGEST_SHOWN = 60
_MOST = 6
_SIMPLE = {str: "a text", bool: "true or false", Path: "a path", dict: "an object of keys and values"}
_PLURALS = {"a text": "texts", "a whole number": "whole numbers", "a number": "numbers", "a path": "paths"}


@dataclass(frozen=True)
class Wrong:
    """One value that does not fit. `reason` is a predicate (`must be a whole number, not 'abc'`), or a sentence."""

    place: Place
    reason: str
    is_sentence: bool = False

    def named(self, names: Mapping[str, str] | None = None) -> str:
        """`name reason`; `names` gives what a person calls a field where that is another word."""
        name = place_text(self.place, names)
        if self.is_sentence:
            return self.reason if self.reason.startswith(name) else f"{name}: {self.reason}"
        return f"{name} {self.reason}"


def wrong_values(error: ValidationError, kind: type[BaseModel], *, show: bool = True) -> tuple[Wrong, ...]:
    """Everything that is wrong, the first few of it. `show=False` shows no text that was found: it may be a secret."""
    found = [_wrong(each, kind, show=show) for each in error.errors(include_url=False)]
    return tuple(dict.fromkeys(found))[:_MOST]


def sentence(
    error: ValidationError, kind: type[BaseModel], names: Mapping[str, str] | None = None, *, show: bool = True
) -> str:
    """The same as one line."""
    return "; ".join(wrong.named(names) for wrong in wrong_values(error, kind, show=show))


def place_text(place: Place, names: Mapping[str, str] | None = None) -> str:
    """`prices.as_of`, `wants[2]`."""
    text = ""
    for number, part in enumerate(place):
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if number else "") + ((names or {}).get(part, part) if number == 0 else part)
    return text or "it"


def allowed(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """What a value of this type may be, in words: `a whole number from 1 to 150`, `'now' or 'night'`."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return allowed(inside[0], (*metadata, *_flat(inside[1:])))
    if origin in (Union, types.UnionType):
        return _either([allowed(each, metadata) for each in inside if each is not type(None)])
    if origin is Literal:
        return _either([repr(each) for each in inside])
    if origin in (tuple, list):
        return _list_of(inside)
    if annotation in (int, float):
        return ("a whole number" if annotation is int else "a number") + _bounds(metadata)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _SIMPLE[dict]
    text = _SIMPLE.get(origin or annotation, "of another type")
    pattern = next((each.pattern for each in metadata if getattr(each, "pattern", None)), None)
    return f"{text} that matches {pattern}" if pattern else text


def _flat(metadata: Iterable[Any]) -> list[Any]:
    """A `Field(...)` inside Annotated holds its bounds in a list of its own."""
    return [part for each in metadata for part in (each.metadata if isinstance(each, FieldInfo) else (each,))]


def allowed_in(field: FieldInfo) -> str:
    """The same for a field."""
    return allowed(field.annotation, field.metadata)


def _wrong(entry: Any, kind: type[BaseModel], *, show: bool) -> Wrong:
    place: Place = tuple(entry["loc"])
    match entry["type"]:
        case "missing":
            return Wrong(place, "is missing")
        case "extra_forbidden":
            return Wrong(place, f"is an unknown key{_near(place, kind)}")
        case "json_invalid":
            return Wrong(place, f"is not JSON: {entry['ctx']['error']}")
        case "value_error":
            return Wrong(place, str(entry["msg"]).removeprefix("Value error, "), is_sentence=True)
        case "string_too_short":
            return Wrong(place, "must not be empty")
        case "too_short" | "too_long":
            return Wrong(place, _wrong_length(entry))
        case "string_unicode" | "string_sub_type":
            return Wrong(place, "holds characters that are not Unicode text: leave them out")
        case _:
            known = _known_part(place, kind)
            return Wrong(known, f"must be {_allowed_at(known, kind)}{_found(entry, kind, show=show)}")


def _wrong_length(entry: Any) -> str:
    context = entry.get("ctx", {})
    if entry["type"] == "too_short":
        return f"must have at least {context.get('min_length', 1)}, and has {context.get('actual_length', 0)}"
    return f"must have at most {context.get('max_length')}, and has {context.get('actual_length')}"


def _near(place: Place, kind: type[BaseModel]) -> str:
    owner = _type_at(place[:-1], kind)
    names = owner.model_fields if isinstance(owner, type) and issubclass(owner, BaseModel) else ()
    near = difflib.get_close_matches(str(place[-1]), names, 1) if place else []
    return f": did you mean {near[0]!r}?" if near else ""


def _known_part(place: Place, kind: type[BaseModel]) -> Place:
    """Without the parts that pydantic adds for the members of a union."""
    return place if not place or _type_at(place, kind) is not None else _known_part(place[:-1], kind)


def _allowed_at(place: Place, kind: type[BaseModel]) -> str:
    found = _type_at(place, kind)
    return allowed_in(found) if isinstance(found, FieldInfo) else allowed(found)


def _type_at(place: Place, kind: type[BaseModel]) -> Any:
    """The field or type at a place; None where there is none."""
    found: Any = kind
    for part in place:
        found = _inside(found.annotation if isinstance(found, FieldInfo) else found, part)
        if found is None:
            return None
    return _plain(found.annotation) if isinstance(found, FieldInfo) and _is_model(found.annotation) else found


def _inside(annotation: Any, part: int | str) -> Any:
    plain = _plain(annotation)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return _field(plain, str(part))
    origin, inside = get_origin(plain), get_args(plain)
    if isinstance(part, int):
        return inside[0] if origin in (list, tuple) and inside else None
    is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
    return inside[1] if is_mapping and len(inside) == 2 else None


def _field(model: type[BaseModel], name: str) -> FieldInfo | None:
    by_alias = (field for field in model.model_fields.values() if field.alias == name)
    return model.model_fields.get(name) or next(by_alias, None)


def _is_model(annotation: Any) -> bool:
    plain = _plain(annotation)
    return isinstance(plain, type) and issubclass(plain, BaseModel)


def _plain(annotation: Any) -> Any:
    """Without Annotated and None."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(inside[0])
    if origin in (Union, types.UnionType):
        left = [each for each in inside if each is not type(None)]
        return _plain(left[0]) if len(left) == 1 else annotation
    return annotation


def _found(entry: Any, kind: type[BaseModel], *, show: bool) -> str:
    value, place = entry.get("input"), tuple(entry["loc"])
    field = _type_at(place, kind)
    private = any(isinstance(part, str) and _PRIVATE.fullmatch(part) for part in place)
    private = private or (isinstance(field, FieldInfo) and not field.repr)
    match value:
        case None:
            return ", not empty"
        case bool() | int() | float() if not private:
            return f", not {_short(str(value).lower() if isinstance(value, bool) else str(value))}"
        case str() if show and not private:
            return f", not {_short(value)!r}"
        case list() | tuple():
            return ", not a list"
        case dict():
            return ", not an object"
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _list_of(inside: Iterable[Any]) -> str:
    item = allowed(next(iter(inside), str))
    return f"a list of {_PLURALS[item]}" if item in _PLURALS else "a list"


def _bounds(metadata: Sequence[Any]) -> str:
    found = {name: getattr(each, name) for each in metadata for name in ("ge", "gt", "le", "lt") if hasattr(each, name)}
    lowest = f"from {found['ge']:g}" if "ge" in found else f"above {found['gt']:g}" if "gt" in found else ""
    highest = f"to {found['le']:g}" if "le" in found else f"below {found['lt']:g}" if "lt" in found else ""
    if highest and not lowest:
        highest = highest.replace("to ", "up to ", 1)
    return "".join(f" {text}" for text in (lowest, highest) if text)
