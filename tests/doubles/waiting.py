"""Waiting for what happens in another process: a condition with a bound, instead of a sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def until(
    condition: Callable[[], T], seconds: float = 30, what: str = "it came true", *, pause_seconds: float = 0.02
) -> T:
    """The condition's first true value. Fails with `what` after `seconds`. Pause longer where a look costs much."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(pause_seconds)
    pytest.fail(f"not within {seconds:g} s: {what}")
