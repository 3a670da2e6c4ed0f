"""Prefect's server with less to do: what it answers and keeps stays the same."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from deployments import quiet_server


def test_the_server_looks_seldom_for_planned_work_and_all_else_of_that_library_is_as_it_was():
    code = (
        "import inspect, json; from deployments import quiet_server; quiet_server.look_seldom_for_planned_work()\n"
        "from docket import Worker; found = inspect.signature(Worker.__init__).parameters\n"
        "print(json.dumps({name: str(each.default) for name, each in found.items()}))"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3]), "HOME": os.environ["HOME"]}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["minimum_check_interval"], found["scheduling_resolution"]) == ("0:00:05", "0:00:05")
    assert (found["concurrency"], found["redelivery_timeout"]) == ("10", "0:05:00")


@pytest.fixture
def as_it_comes(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Whatever is changed of Prefect in a test is put back."""
    from burner_redis.pubsub import PubSub
    from prefect.server.utilities.database import Timestamp
    from prefect.utilities.schema_tools import validation

    monkeypatch.setattr(PubSub, "_queue_get", PubSub._queue_get)
    monkeypatch.setattr(Timestamp, "process_bind_param", Timestamp.process_bind_param)
    monkeypatch.setattr(validation._VALIDATOR, "check_schema", validation._VALIDATOR.check_schema)
    return monkeypatch


def test_a_message_of_the_background_library_comes_without_a_thread(as_it_comes: pytest.MonkeyPatch):
    import burner_redis

    quiet_server.listen_without_threads()

    async def story() -> tuple[Any, Any, list[str]]:
        client = burner_redis.BurnerRedis()
        listener = client.pubsub()
        await listener.subscribe("news")
        assert (await listener.get_message(timeout=5))["type"] == "subscribe"
        nothing = await listener.get_message(timeout=0.1)
        heard = asyncio.create_task(listener.get_message(timeout=None))
        await asyncio.sleep(0.05)
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncio_")]
        await client.publish("news", "hello")
        return nothing, (await asyncio.wait_for(heard, 5))["data"], threads

    assert asyncio.run(story()) == (None, b"hello", [])


def test_the_web_server_turns_twice_a_second_dates_its_answers_and_ends_when_asked(as_it_comes: pytest.MonkeyPatch):
    import uvicorn

    as_it_comes.setattr(quiet_server, "_TURN_SECONDS", 0.01)
    as_it_comes.setattr(uvicorn.Server, "main_loop", uvicorn.Server.main_loop)
    quiet_server.turn_seldom()
    server, turns = uvicorn.Server(uvicorn.Config("nowhere:app")), list[int]()
    usual = server.on_tick

    async def on_tick(turn: int) -> bool:
        turns.append(turn)
        server.should_exit = len(turns) == 4
        return await usual(turn)

    as_it_comes.setattr(server, "on_tick", on_tick)
    asyncio.run(server.main_loop())
    assert turns == [0, 5, 10, 15]
    assert [name for name, _ in server.server_state.default_headers] == [b"date"]


@pytest.mark.parametrize(("asked", "seconds"), [(timedelta(seconds=5), 60), (timedelta(minutes=5), 300)])
def test_automations_are_tidied_seldom(as_it_comes: pytest.MonkeyPatch, asked: timedelta, seconds: float):
    from prefect.server.events import triggers

    every: list[timedelta] = []
    as_it_comes.setattr(triggers, "evaluate_periodically", every.append)
    quiet_server.tidy_automations_seldom()
    triggers.evaluate_periodically(asked)  # type: ignore[unused-coroutine]
    assert [each.total_seconds() for each in every] == [seconds]


def test_moments_are_sent_to_the_database_as_plain_ones_and_are_the_same(as_it_comes: pytest.MonkeyPatch):
    from prefect.server.utilities.database import Timestamp
    from prefect.types._datetime import create_datetime_instance

    quiet_server.bind_plain_moments()
    bind = Timestamp().process_bind_param
    plain = datetime(2026, 10, 25, 2, 30, 1, 123456, tzinfo=UTC)
    moments = [create_datetime_instance(plain.astimezone(ZoneInfo(zone))) for zone in ("UTC", "Europe/Berlin")]
    for moment in (*moments, plain, plain.astimezone()):
        for dialect in (postgresql.dialect(), sqlite.dialect()):
            bound = bind(moment, dialect)
            assert type(bound) is datetime
            assert bound - plain == timedelta(0)
    assert bind(None, postgresql.dialect()) is None
    with pytest.raises(ValueError, match="timezone"):
        bind(plain.replace(tzinfo=None), postgresql.dialect())


def test_a_schema_is_judged_once_and_a_bad_one_each_time(as_it_comes: pytest.MonkeyPatch):
    from prefect.utilities.schema_tools import validation

    judged: list[Any] = []
    usual = validation._VALIDATOR.check_schema

    def counted(schema: Any, **options: Any) -> None:
        judged.append(schema)
        usual(schema, **options)

    as_it_comes.setattr(validation._VALIDATOR, "check_schema", counted)
    quiet_server.judge_each_schema_once()
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    validation.validate({"a": 1}, schema, raise_on_error=True)
    with pytest.raises(validation.ValidationError, match="'a'"):
        validation.validate({"a": "one"}, schema, raise_on_error=True)
    assert len(judged) == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="Invalid schema"):
            validation.is_valid_schema({"type": "no such type"})
    assert len(judged) == 3
