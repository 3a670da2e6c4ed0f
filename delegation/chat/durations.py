"""Lengths of time as endpoints write them: `20`, `1.5`, `120ms`, `6m0s`, `3 days 4 hours`. Nothing here raises."""

import math
import re
from typing import Any

LONGEST_SECONDS = 31 * 86_400.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
NUMBER = re.compile(r"\+?\d+(?:\.\d+)?(?:[eE]\+?\d+)?", re.ASCII)
_UNIT = (
    r"(?:milliseconds?|millis|seconds?|minutes?|hours?|days?|weeks?|mins?|secs?|hrs?|ms|[smhdw]|"
    r"毫秒|秒|分钟|小时|天)(?![a-z])"
)
_ONE = rf"\d+(?:\.\d+)?\s*{_UNIT}"
DURATION = rf"{_ONE}(?:[\s,]*(?:and\s+)?{_ONE})*"
_WHOLE = re.compile(rf"\s*{DURATION}\s*", re.I)
_PART = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.I)
_CHINESE = {"毫秒": "ms", "秒": "s", "分钟": "m", "小时": "h", "天": "d"}


def plain_number(value: Any) -> float | None:
    """A number that is written as digits, or is one; None for NaN, infinity, signs below zero and anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and not NUMBER.fullmatch(text):
        return None
    try:
        number = float(text)
    except OverflowError:
        return LONGEST_SECONDS if value > 0 else None  # type: ignore[operator]  # only an int overflows
    return None if math.isnan(number) or number < 0 or (number == math.inf and not isinstance(text, str)) else number


def duration(text: str) -> float | None:
    """Seconds of a text that is nothing but a number with units; None where it is more, or less."""
    return duration_in(text) if _WHOLE.fullmatch(text) else None


def duration_in(text: str) -> float:
    """The sum of all numbers with units in a text, bounded."""
    total = sum(float(number) * _UNITS[_unit(word)] for number, word in _PART.findall(text))
    return min(total, LONGEST_SECONDS)


def _unit(word: str) -> str:
    lowered = _CHINESE.get(word, word.lower())
    return "ms" if lowered == "ms" or lowered.startswith("milli") else lowered[0]
