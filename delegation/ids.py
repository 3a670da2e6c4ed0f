"""Ids of delegations: sortable by time, safe as file name, branch and tag."""

import re
import secrets
from datetime import UTC, datetime
from typing import Literal

Prefix = Literal["dg", "cx", "gm", "dsh", "rd"]
COMPARISON_PREFIX = "cmp-"
"""What ids of comparisons begin with, and no id of a delegation."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
SHORTEST_ENDING = 4
"""Characters of an ending that stands for the whole id: as many as the random part has."""
_PATTERN = re.compile(r"(dg|cx|gm|dsh|rd)-\d{8}t\d{9}-[0-9a-z]{4}", re.ASCII)
_BEGINNING = re.compile(
    rf"d|c|g|r|ds|(dg|cx|gm|dsh|rd)(-(\d{{0,8}}|\d{{8}}t\d{{0,9}}|\d{{8}}t\d{{9}}-[{_ALPHABET}]{{0,4}}))?", re.ASCII
)
_ENDING = re.compile(
    rf"((((d|r?d|d?g|c?x|g?m|d?s?h)?-)?\d{{8}}|\d{{0,7}})t\d{{9}}-|\d{{0,9}}-)?[{_ALPHABET}]{{4}}", re.ASCII
)


def new_id(prefix: Prefix, now: datetime | None = None) -> str:
    """A fresh id such as `dg-20261130t113652417-k7x2` (UTC, milliseconds, four random characters)."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    stamp = moment.strftime("%Y%m%dt%H%M%S") + f"{moment.microsecond // 1000:03d}"
    return f"{prefix}-{stamp}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"


def is_id(text: str) -> bool:
    """Whether the text is a whole id, and so may name a file."""
    return _PATTERN.fullmatch(text) is not None


def is_ending(text: str, name: str) -> bool:
    """Whether the text is enough of the end of an id to stand for it."""
    return len(text) >= SHORTEST_ENDING and name.endswith(text)


def may_name_one(text: str) -> bool:
    """Whether an id that is not there yet could be meant: a whole one, a beginning or ending of one, or a number."""
    return text.isdecimal() or _BEGINNING.fullmatch(text) is not None or _ENDING.fullmatch(text) is not None
