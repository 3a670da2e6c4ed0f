"""How often and after what wait a throttled run starts again, from the beginning of its prompt."""

import random

RETRIES = 3
_WAITS_SECONDS = (5.0, 10.0, 20.0, 40.0, 60.0)
_JITTER = 0.25


def wait_seconds(attempt: int, hint_seconds: float | None = None, *, chance: float | None = None) -> float:
    """The wait before retry number `attempt` (1 is the first): the hint where there is one, else 5, 10, 20, 40, 60 s;
    up to a quarter more, so that runs which failed together do not come back together."""
    wait = hint_seconds if hint_seconds is not None else _WAITS_SECONDS[min(max(attempt, 1), len(_WAITS_SECONDS)) - 1]
    part = random.random() if chance is None else chance  # spreads load, guards nothing
    return wait * (1 + _JITTER * part)
