"""Cards out of JSON (one, or a list) and of JSON lines, with the line of each key."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from delegation.cards.found import Broken, RawCard

_BLANKS = re.compile(r"[ \t\n\r]*")


def cards_in_json(text: str, stem: str) -> Iterator[RawCard | Broken]:
    """The cards of a file. Raises Broken for text that is not JSON: no card of it can be trusted then."""
    found = list(_elements(text))
    if not found:
        raise Broken("there is no card in it", 1)
    for number, (value, start, end) in enumerate(found, 1):
        default_id = stem if len(found) == 1 else f"{stem}-{number}"
        yield _card(value, text, start, end, default_id)


def cards_in_json_lines(text: str, stem: str) -> Iterator[RawCard | Broken]:
    """One card a line; blank lines and those that begin with `#` are left out. A broken line breaks no other."""
    found = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = True
        try:
            value = _loaded(line)
            _refuse_no_object(value, number)
            yield RawCard(value, number, dict.fromkeys(value, number), f"{stem}-{number}", is_job=True)
        except Broken as broken:
            yield Broken(str(broken), number, broken.key, f"{stem}-{number}")
    if not found:
        yield Broken("there is no card in it", 1)


def _elements(text: str) -> Iterator[tuple[Any, int, int]]:
    """Each card's value and where it begins and ends."""
    whole = _loaded(text)
    start = _after_blanks(text, 0)
    if not isinstance(whole, list):
        yield whole, start, len(text)
        return
    decoder, place = _decoder(), _after_blanks(text, start + 1)
    while text[place] != "]":
        value, end = decoder.raw_decode(text, place)
        yield value, place, end
        place = _after_blanks(text, end)
        place = _after_blanks(text, place + 1) if text[place] == "," else place


def _card(value: Any, text: str, start: int, end: int, default_id: str) -> RawCard | Broken:
    line = text.count("\n", 0, start) + 1
    try:
        _refuse_no_object(value, line)
    except Broken as broken:
        broken.card = default_id
        return broken
    lines = {key: line + text.count("\n", start, _key_place(text, key, start, end)) for key in value}
    return RawCard(value, line, lines, default_id)


def _key_place(text: str, key: str, start: int, end: int) -> int:
    """Where the key stands; a quote inside a JSON string is escaped, so only a key looks so."""
    forms = {json.dumps(key), json.dumps(key, ensure_ascii=False)}
    pattern = "|".join(rf"(?<!\\){re.escape(form)}\s*:" for form in sorted(forms))
    match = re.compile(pattern).search(text, start, end)
    return match.start() if match else start


def _refuse_no_object(value: Any, line: int) -> None:
    if not isinstance(value, dict):
        raise Broken('a card is an object, such as {"task": "..."}', line)


def _loaded(text: str) -> Any:
    try:
        return _decoder().decode(text)
    except json.JSONDecodeError as error:
        raise Broken(f"is not JSON: {error.msg} (column {error.colno})", error.lineno) from None
    except RecursionError:
        raise Broken("is nested too deeply", 1) from None
    except ValueError as error:  # a number with more digits than Python reads
        raise Broken(f"is not JSON: {str(error)[:200]}", 1) from None


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Broken(f"{key} stands there twice", 1, key)
        found[key] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise Broken(f"is not JSON: {name} is no number", 1)


def _after_blanks(text: str, place: int) -> int:
    match = _BLANKS.match(text, place)
    return match.end() if match else place
