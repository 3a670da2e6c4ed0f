"""Questions that a long-lived front door answers itself: at once, with a flow run beside that records them."""

import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from waiting import until

from delegation.errors import Cancelled
from delegation.home import Home
from delegation.reading.admission import Wish
from delegation.reading.kept import Later
from delegation.settings import load_settings
from delegation.shared_state import SharedState, tickets
from delegation.stack_state import running_stack
from mcp_entry.verbs.reading.reading import Reading
from tests.flows.test_reading_runs import answer, api_of, ended, endpoint, env, run_of  # noqa: F401  # fixtures

pytestmark = pytest.mark.stack


@pytest.fixture
def reading(stack: Any, env: dict[str, str], tmp_path: Path) -> Iterator[Reading]:  # noqa: F811
    """After its first question, whose process opened no connections of ours."""
    environ = {**os.environ, **env, "DELEGATE_HOME": str(stack.home)}
    reading = Reading(load_settings(environ, tmp_path), lives_on=True)
    assert reading.query("warm up", Wish()).answer == "yes"
    until(lambda: reading._connecting is not None and reading._connecting.connections is not None, 60)
    yield reading
    until(
        lambda: (
            not [
                each
                for each in threading.enumerate()
                if each.name in ("telling", "recording", "recorded", "reading-run")
            ]
        )
    )
    reading.close()


def home_of(stack: Any) -> Home:
    return Home(stack.home, stack.home / "config" / "delegate.toml")


def nobody_holds_a_slot(stack: Any) -> bool:
    with SharedState(running_stack(home_of(stack)).database_url) as tables:
        return tickets.standing(tables, now=datetime.now(UTC)) == {}


def test_the_answer_waits_for_no_process_and_becomes_a_flow_run(stack, reading, endpoint):  # noqa: F811
    begun = time.monotonic()
    answers = [reading.query(f"question {number}", Wish()) for number in range(3)]
    assert time.monotonic() - begun < 3
    assert [each.answer for each in answers] == ["yes"] * 3
    for each in answers:
        run = run_of(stack, each.session_id, ended)
        assert (run["state_name"], run["state"]["message"]) == ("Answered", each.text.splitlines()[0])
    questions = stack.home / "reading" / "questions"
    until(lambda: list(questions.iterdir()) == [], 30)
    until(lambda: nobody_holds_a_slot(stack), 30)


def test_a_front_door_that_ends_right_after_an_answer_has_given_its_slot_back(stack, reading, endpoint):  # noqa: F811
    reading.query("the last one", Wish())
    reading.close()
    with api_of(stack) as api:
        limits = api.post("/v2/concurrency_limits/filter", json={}).json()
    assert {each["name"]: each["active_slots"] for each in limits if each["active_slots"]} == {}
    assert nobody_holds_a_slot(stack)


def test_a_question_that_is_given_up_or_cancelled_in_the_ui_ends_and_is_a_cancelled_run(stack, reading, endpoint):  # noqa: F811
    given_up = Event()
    came = len(endpoint.calls)

    def in_the_ui() -> None:
        endpoint.wait_for(came + 2, 60)
        (kept,) = (stack.home / "reading" / "questions").glob("*.question")
        names.append(kept.name.split(".")[0])
        run = run_of(stack, names[-1], lambda found: found["state_type"] == "RUNNING")
        with api_of(stack) as api:
            asked = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
            assert api.post(f"/flow_runs/{run['id']}/set_state", json=asked).is_success

    def by_the_asker() -> None:
        endpoint.wait_for(came + 1, 60)
        (kept,) = (stack.home / "reading" / "questions").glob("*.question")
        names.append(kept.name.split(".")[0])
        given_up.set()

    names: list[str] = []
    for stop in (by_the_asker, in_the_ui):
        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(Cancelled):
            reading.query("slow", Wish(), cancelled=given_up if stop is by_the_asker else None)
        stopper.join(60)
        assert run_of(stack, names[-1], ended)["state_name"] == "Cancelled"
        until(lambda: list((stack.home / "reading" / "questions").iterdir()) == [], 30)
    endpoint.wait_gone(2)
    until(lambda: nobody_holds_a_slot(stack), 30)


@pytest.mark.parametrize("when", ["before it begins", "while it records"])
def test_what_its_process_could_not_record_is_recorded_with_the_next_question(stack, reading, endpoint, when):  # noqa: F811
    came = len(endpoint.calls)

    def kill_the_recorder() -> None:
        endpoint.wait_for(came + 1, 60)
        (kept,) = (stack.home / "reading" / "questions").glob("*.question")
        name = kept.name.split(".")[0]
        found = until(lambda: recorders(name), 30)  # without the launcher it becomes another program meanwhile
        if when == "while it records":
            run_of(stack, name, lambda run: run["state_type"] == "RUNNING")
        for process in found:
            process.kill()

    stopper = threading.Thread(target=kill_the_recorder)
    stopper.start()
    answered = reading.query("takes a moment" if when == "before it begins" else "takes long", Wish())
    stopper.join(60)
    assert answered.answer == "yes"
    until(lambda: [each.id for each in Later(home_of(stack)).entries()] == [answered.session_id], 30)
    reading.query("next", Wish())
    until(lambda: Later(home_of(stack)).entries() == [], 60)
    assert run_of(stack, answered.session_id, lambda run: run["state_name"] == "Answered")


def recorders(question_id: str) -> list[psutil.Process]:
    """The launcher's clients that stand for the question's process, started by this one."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if each.environ().get("DELEGATE_QUESTION") == question_id]
