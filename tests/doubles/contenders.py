"""Twenty processes that use the shared tables at the same moment; prints what each of them got, as JSON.

python contenders.py DATABASE_URL
"""

import json
import multiprocessing
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from delegation.shared_state import SharedState, caps, cooldowns, projects, tickets

PROCESSES, CEILING, ROUNDS = 20, 4, 2
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
_BEGINNING = datetime.now(UTC)
_LONGEST_SECONDS = 120.0


@dataclass
class Shared:
    """What the processes share beside the tables: a common start, and a count of who holds a slot."""

    start: Any
    in_use: Any
    most: Any
    results: Any


def main(url: str) -> None:
    context = multiprocessing.get_context("fork")
    shared = Shared(context.Barrier(PROCESSES), context.Value("i", 0), context.Value("i", 0), context.SimpleQueue())
    children = [context.Process(target=contend, args=(url, n, shared)) for n in range(PROCESSES)]
    for child in children:
        child.start()
    results = [shared.results.get() for _ in children]
    for child in children:
        child.join(_LONGEST_SECONDS)
    with SharedState(url) as state:
        cap = caps.of(state, "counted")
        left = sorted(tickets.standing(state, now=datetime.now(UTC)))
    assert cap is not None
    print(json.dumps({"results": results, "most": shared.most.value, "counted": cap.successes, "left": left}))


def contend(url: str, number: int, shared: Shared) -> None:
    result: dict[str, Any] = {"number": number}
    try:
        with SharedState(url) as state:
            for step in (_slots, _cooldown, _probe, _halving, _counting, _checkout, _project):
                shared.start.wait(_LONGEST_SECONDS)
                result[step.__name__] = step(state, number, shared)
    except BaseException as error:
        result["error"] = repr(error)
        shared.start.abort()
    finally:
        shared.results.put(result)


def _slots(state: SharedState, number: int, shared: Shared) -> int:
    """Takes a slot a few times; how often it got one. Each asks as if it had waited longer than all before it: those
    in order one after the other would keep out of each other's way even without a lock."""
    got = 0
    for round_ in range(ROUNDS):
        holder, now = f"{number}-{round_}", datetime.now(UTC)
        asked_at = now - timedelta(hours=1) - (now - _BEGINNING)
        tickets.queue(state, "b", holder=holder, priority="now", asked_at=asked_at, now=now)
        while not tickets.take(state, "b", holder=holder, ceiling=CEILING, now=datetime.now(UTC)).granted:
            time.sleep(0.1)
        with shared.in_use.get_lock():
            shared.in_use.value += 1
            shared.most.value = max(shared.most.value, shared.in_use.value)
        got += 1
        time.sleep(0.3)
        with shared.in_use.get_lock():
            shared.in_use.value -= 1
        tickets.leave(state, holder, now=datetime.now(UTC))
    return got


def _cooldown(state: SharedState, number: int, shared: Shared) -> float:
    until = NOW + timedelta(seconds=30 + number * 7 % PROCESSES)
    cooldowns.begin(state, "pool", until=until, kind="throttled", reason="429", now=NOW)
    shared.start.wait(_LONGEST_SECONDS)
    return (cooldowns.of(state, ["pool"], now=NOW)["pool"].until - NOW).total_seconds()


def _probe(state: SharedState, number: int, shared: Shared) -> bool:
    return cooldowns.ask(state, "pool", holder=str(number), now=NOW + timedelta(seconds=60)) == "probe"


def _halving(state: SharedState, number: int, shared: Shared) -> int:
    return caps.throttled(state, "b", ceiling=CEILING, hint_seconds=None, now=NOW).cap


def _counting(state: SharedState, number: int, shared: Shared) -> None:
    caps.throttled(state, "counted", ceiling=10_000, hint_seconds=None, now=NOW)
    shared.start.wait(_LONGEST_SECONDS)
    for _ in range(5):
        caps.succeeded(state, "counted", ceiling=10_000, now=NOW)


def _checkout(state: SharedState, number: int, shared: Shared) -> bool:
    return _entered(state, f"c{number}", "one", "/same")


def _project(state: SharedState, number: int, shared: Shared) -> bool:
    return _entered(state, f"p{number}", "two", f"/{number}")


def _entered(state: SharedState, holder: str, project: str, checkout: str) -> bool:
    entered = projects.enter(
        state,
        kind="codex",
        project=project,
        checkout=checkout,
        holder=holder,
        per_project=CEILING,
        now=NOW,
    )
    return isinstance(entered, projects.Entered)


if __name__ == "__main__":
    main(sys.argv[1])
