"""Ids of delegations: sortable by time, safe as file name, branch and tag."""

import re
import secrets
from datetime import UTC, datetime
from typing import Literal

Prefix = Literal["dg", "cx", "gm", "dsh", "rd"]
COMPARISON_PREFIX = "cmp-"
"""What ids of comparisons begin with, and no id of a delegation."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford: no i, l, o, u
_PATTERN = re.compile(r"(dg|cx|gm|dsh|rd)-\d{8}t\d{9}-[0-9a-z]{4}", re.ASCII)


def new_id(prefix: Prefix, now: datetime | None = None) -> str:
    """A fresh id such as `dg-20261130t113652417-k7x2` (UTC, milliseconds, four random characters)."""
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    stamp = moment.strftime("%Y%m%dt%H%M%S") + f"{moment.microsecond // 1000:03d}"
    return f"{prefix}-{stamp}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"


def is_id(text: str) -> bool:
    """Whether the text is a whole id, and so may name a file."""
    return _PATTERN.fullmatch(text) is not None
