"""`prefect server start`, as it is, with less to do: `python -m deployments.quiet_server OPTION...`.

What it answers and keeps is the same. Left out is what costs much and gives nothing: clocks that look ten times a
second, a moment's way through a class of many wrappers, the same schema judged again for every run. Where one of the
names that this needs is missing, the server starts as it comes.
"""

import asyncio
import importlib
import inspect
import json
import queue
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

from deployments.prefect_internals import SERVER, problem

_BACKGROUND = timedelta(seconds=5)
_AUTOMATIONS = timedelta(seconds=60)
_LISTEN_AT_FIRST_SECONDS, _LISTEN_SECONDS = 0.02, 1.0
_TURN_SECONDS, _TURNS_TOGETHER = 0.5, 5
_MOST_SCHEMAS = 1000
_LIBRARYS_WORKER = "Worker"  # docket's, which is Prefect's dependency and none of ours


def work_less() -> None:
    look_seldom_for_planned_work()
    listen_without_threads()
    tidy_automations_seldom()
    turn_seldom()
    bind_plain_moments()
    judge_each_schema_once()


def look_seldom_for_planned_work() -> None:
    """Prefect hands its background work to a library that looks four times a second whether a moment has come. What is
    to be done at once does not wait for that look; what is planned begins up to five seconds later, and nothing is
    planned more often than every fifteen."""
    worker: Any = getattr(importlib.import_module("prefect.server.api.background_workers"), _LIBRARYS_WORKER)
    parameters = inspect.signature(worker.__init__).parameters.values()
    with_default = [
        each for each in parameters if each.default is not each.empty and each.kind is not each.KEYWORD_ONLY
    ]
    slower = {"minimum_check_interval": _BACKGROUND, "scheduling_resolution": _BACKGROUND}
    worker.__init__.__defaults__ = tuple(slower.get(each.name, each.default) for each in with_default)


def listen_without_threads() -> None:
    """That library hears of its own cancelled work through a queue, for which a thread waits in slices of a tenth of a
    second, for ever. Looking into the queue takes no thread: soon after a message, and then ever more seldom."""

    async def item(self: Any, timeout: float | None) -> Any:  # noqa: ASYNC109  # the library's own signature
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                found = self._queue.get_nowait()
            except queue.Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    return None
            else:
                self._pause_seconds = _LISTEN_AT_FIRST_SECONDS
                return found
            pause = getattr(self, "_pause_seconds", _LISTEN_AT_FIRST_SECONDS)
            self._pause_seconds = min(2 * pause, _LISTEN_SECONDS)
            await asyncio.sleep(pause)

    importlib.import_module("burner_redis.pubsub").PubSub._queue_get = item


def tidy_automations_seldom() -> None:
    """Every five seconds it asks the database for events of automations whose time has run out, also without any
    automation. What an event starts does not wait for that."""
    triggers: Any = importlib.import_module("prefect.server.events.triggers")
    usual: Callable[[timedelta], Any] = triggers.evaluate_periodically

    @wraps(usual)
    def evaluate_seldom(every: timedelta) -> Any:
        return usual(max(every, _AUTOMATIONS))

    triggers.evaluate_periodically = evaluate_seldom


def turn_seldom() -> None:
    """The web server looks ten times a second whether it is to end, and writes the date of its answers every tenth
    time. Twice a second is soon enough."""
    web_server: Any = importlib.import_module("uvicorn").Server

    async def main_loop(self: Any) -> None:
        turn = 0
        while not await self.on_tick(turn):
            await asyncio.sleep(_TURN_SECONDS)
            turn += _TURNS_TOGETHER

    web_server.main_loop = main_loop


def bind_plain_moments() -> None:
    """Moments come as a class of Prefect's whose subtraction warns, wraps and measures; the database's driver subtracts
    for each one that it sends, which was an eighth of the server's work for a delegation."""
    timestamp: Any = importlib.import_module("prefect.server.utilities.database").Timestamp
    usual: Callable[..., datetime | None] = timestamp.process_bind_param

    @wraps(usual)
    def plain(self: Any, value: datetime | None, dialect: Any) -> datetime | None:
        bound = usual(self, value, dialect)
        return bound if bound is None or type(bound) is datetime else _plain(bound)

    timestamp.process_bind_param = plain


def _plain(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), moment.timetz()).astimezone(UTC)


def judge_each_schema_once() -> None:
    """A schema is judged by the schema of schemas each time that something is checked by it."""
    validator: Any = importlib.import_module("prefect.utilities.schema_tools.validation")._VALIDATOR
    usual: Callable[..., None] = validator.check_schema
    sound: set[str] = set()

    @wraps(usual)
    def check_schema(schema: Any, **options: Any) -> None:
        key = json.dumps(schema, sort_keys=True, default=repr)
        if key not in sound:
            usual(schema, **options)
            if len(sound) >= _MOST_SCHEMAS:
                sound.clear()
            sound.add(key)

    validator.check_schema = check_schema


def main() -> None:
    from prefect.cli import app

    if lacks := problem(SERVER):
        sys.stderr.write(f"{lacks}\n")
    else:
        work_less()
    sys.argv = ["prefect", "server", "start", *sys.argv[1:]]
    app()


if __name__ == "__main__":
    main()
