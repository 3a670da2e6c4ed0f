"""When to come back: every way in which an endpoint says how long to wait.

What cannot be read is no hint, so that the caller's own backoff applies. Nothing here raises.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from delegation.chat.bodies import Field, fields, lowered
from delegation.chat.durations import DURATION, LONGEST_SECONDS, duration, duration_in, plain_number
from delegation.chat.moments import date_in_text, epoch, http_date, until

LONGEST_SKEW_SECONDS = 86_400.0
# Nobody says in more words when to come back; longer texts only cost time.
LONGEST_WORDS = 4_000
_NAMED = ("retry-after-ms", "retry-after", "llm_provider-retry-after")
_RESET_HEADERS = re.compile(r"(?:x-)?(?:anthropic-)?ratelimit(?:-[a-z0-9-]+?)?-reset(?:-(requests|tokens|[a-z0-9-]+))?")
_WAIT = re.compile(
    r"(?:\b(?:try(?:ing)? again|retry(?:ing)?|wait|resets?|available)\b[^.\n]{0,40}?\b(?:in|after|for)\b|\bwait\b)"
    rf"\s*:?\s*(?:about|approximately|around|at least|another|~)?\s*({DURATION})",
    re.I,
)
_WAIT_ONE = re.compile(
    r"\b(?:again|retry|resets?|available)\s+(?:in|after)\s+(?:less than\s+)?(?:an?|one)\s+(minute|hour|day|week)\b",
    re.I,
)
_WAIT_CHINESE = re.compile(rf"({DURATION})\s*(?:之)?后")
_WRITTEN_HEADER = re.compile(
    r"\bretry[-_ ]?after(?P<ms>[-_ ]?ms)?[\"']?\s*[:=]\s*[\"']?(?P<number>\d+(?:\.\d+)?)(?![\d.]*\s*[a-z])", re.I
)
_WRITTEN_DELAY = re.compile(r"\bretry_?delay[\"']?\s*[:{]\s*[\"']?(?:seconds:\s*)?(\d+(?:\.\d+)?)", re.I)
# Keys of JSON bodies, without `-` and `_`: what they count.
_SECONDS_KEYS = {
    "retryafter",
    "retryafterseconds",
    "retryaftersecs",
    "retrydelay",
    "retrydelayseconds",
    "retryin",
    "retryinseconds",
    "quotaresetdelay",
    "resetafterseconds",
    "resetinseconds",
    "resetsinseconds",
}
_MILLISECONDS_KEYS = {"retryafterms", "retrydelayms"}
_MOMENT_KEYS = {"resetsat", "resetat", "retryat", "quotaresettimestamp", "nextflushtime", "resettime"}


@dataclass(frozen=True)
class Hint:
    """`seconds` from now, between 0 and 31 days. `source` is where it stood, `said` what stood there."""

    seconds: float
    source: str
    said: str


def hint(headers: Mapping[str, Any], message: str, body: Any = None, now: datetime | None = None) -> Hint | None:
    """The endpoint's hint: a header that is made for it, else the JSON body, the words, or a rate limit's reset.

    Several values of one kind are taken as the longest of them. Dates count from the endpoint's own clock where it
    shows it and is less than a day off.
    """
    moment = server_time(headers, now or datetime.now(UTC))
    found = fields(body)
    embedded = [field.value for field in found if field.is_headers]
    ways: Iterable[Iterable[Hint]] = (
        _in_named_headers(headers, "header", moment),
        _in_body(found, moment),
        (hint for inner in embedded for hint in _in_named_headers(inner, "body header", moment)),
        _in_words(message[:LONGEST_WORDS]),
        _in_reset_headers(headers, "header", moment),
        (hint for inner in embedded for hint in _in_reset_headers(inner, "body header", moment)),
    )
    for way in ways:
        if (longest := max(way, key=lambda one: one.seconds, default=None)) is not None:
            return longest
    return None


def server_time(headers: Mapping[str, Any], now: datetime) -> datetime:
    """What the endpoint's clock showed; ours where it does not say, agrees, or is wrong by more than a day."""
    shown = http_date(str(lowered(headers).get("date", "")))
    if shown is None or not 2.0 < abs((shown - now).total_seconds()) < LONGEST_SKEW_SECONDS:
        return now
    return shown


def _hint(seconds: float | None, source: str, said: Any) -> Iterator[Hint]:
    if seconds is not None:
        yield Hint(min(seconds, LONGEST_SECONDS), source, " ".join(str(said).split())[:100])


def _in_named_headers(headers: Mapping[str, Any], where: str, now: datetime) -> Iterator[Hint]:
    """The first of the names that says something readable."""
    for name in _NAMED:
        found = [one for value in _values(headers, name) for one in _named(name, value, where, now)]
        if found:
            yield from found
            return


def _values(headers: Mapping[str, Any], name: str) -> list[str]:
    get_list = getattr(headers, "get_list", None)
    found: Any = get_list(name) if get_list else lowered(headers).get(name)
    values: list[Any] = found if isinstance(found, list) else [] if found is None else [found]
    return [str(value) for value in values]


def _named(name: str, value: str, where: str, now: datetime) -> Iterator[Hint]:
    scale = 0.001 if name.endswith("-ms") else 1.0
    numbers = [plain_number(part) for part in value.split(",")]
    known = [number for number in numbers if number is not None]
    if known and len(known) == len(numbers):
        yield from _hint(max(_wait(number, scale, now) for number in known), f"{where} {name}", value)
    else:
        yield from _hint(_written(value, now), f"{where} {name}", value)


def _wait(number: float, scale: float, now: datetime) -> float:
    """Seconds, unless the number is the time of day that some servers send by mistake."""
    moment = epoch(number)
    ahead = None if moment is None else (moment - now).total_seconds()
    return ahead if ahead is not None and 0 <= ahead <= LONGEST_SECONDS else number * scale


def _written(value: str, now: datetime) -> float | None:
    """A length of time with units, or a date."""
    length = duration(value)
    return length if length is not None else until(http_date(value) or date_in_text(value), now)


def _in_body(found: Iterable[Field], now: datetime) -> Iterator[Hint]:
    for field in found:
        key = re.sub(r"[-_]", "", field.key.lower())
        scale = 1.0 if key in _SECONDS_KEYS else 0.001 if key in _MILLISECONDS_KEYS else None
        if scale is not None:
            yield from _hint(_body_seconds(field.value, scale, now), f"body {field.key}", field.value)
        elif key in _MOMENT_KEYS:
            yield from _hint(until(body_moment(field.value, now), now), f"body {field.key}", field.value)


def _body_seconds(value: Any, scale: float, now: datetime) -> float | None:
    number = plain_number(value)
    if number is not None:
        return _wait(number, scale, now)
    return _written(value, now) if isinstance(value, str) else None


def body_moment(value: Any, now: datetime) -> datetime | None:
    """A moment as JSON bodies give it: epoch seconds or milliseconds, ISO, or (wrongly named) seconds from `now`."""
    number = plain_number(value)
    if number is None:
        return date_in_text(value) or http_date(value) if isinstance(value, str) else None
    return epoch(number) or (now + timedelta(seconds=min(number, LONGEST_SECONDS)) if number > 0 else None)


def _in_words(message: str) -> Iterator[Hint]:
    for pattern in (_WAIT, _WAIT_CHINESE):
        if found := pattern.search(message):
            yield from _hint(duration_in(found[1]), "message", found[0])
            return
    if found := _WAIT_ONE.search(message):
        yield from _hint(duration_in(f"1 {found[1]}"), "message", found[0])
    elif found := _WRITTEN_HEADER.search(message):
        yield from _hint(float(found["number"]) * (0.001 if found["ms"] else 1.0), "message", found[0])
    elif found := _WRITTEN_DELAY.search(message):
        yield from _hint(float(found[1]), "message", found[0])


def _in_reset_headers(headers: Mapping[str, Any], where: str, now: datetime) -> Iterator[Hint]:
    """Rate limits that are used up; all of them when none says what remains."""
    names = lowered(headers)
    resets = {name: str(value) for name, value in names.items() if _RESET_HEADERS.fullmatch(name)}
    spent = {
        name: value
        for name, value in resets.items()
        if plain_number(names.get(name.replace("-reset", "-remaining", 1))) == 0
    }
    for name, value in (spent or resets).items():
        yield from _hint(_reset_value(value.strip(), now), f"{where} {name}", value)


def _reset_value(value: str, now: datetime) -> float | None:
    number = plain_number(value)
    if number is None:
        return _written(value, now)
    moment = epoch(number)
    return number if moment is None else until(moment, now)
