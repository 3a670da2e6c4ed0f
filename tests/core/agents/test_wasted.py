"""What requests took is in the result also where no reply came of them, and a cost that nobody said is unknown."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from delegation.agents.results import AgentResult
from delegation.agents.tools.toolbox import Toolbox
from delegation.receipt import Cost, Usage
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.core.agents.over_http import run_over_http

LOOK = Turn(calls=(Call("list_files", {}),), usage={"input": 10, "output": 5}, cost_usd=0.25)
DONE = Turn(text="Done.", usage={"input": 10, "output": 5}, cost_usd=0.25)
EMPTY = Turn(text=" ", usage={"input": 10, "output": 5}, cost_usd=0.5)
SPENT = Turn(thinking="Hm", fault="length", usage={"input": 10, "output": 1000}, cost_usd=0.5)
UNKNOWN = Cost(amount_usd=None, kind="unknown")

Work = Callable[..., AgentResult]


@pytest.fixture
def work(tmp_path: Path, toolbox: Toolbox, cancelled: threading.Event) -> Work:
    def working(turns: Sequence[Turn] | ScriptedEndpoint, **more: Any) -> AgentResult:
        if not isinstance(turns, ScriptedEndpoint):
            with ScriptedEndpoint(turns) as server:
                return working(server, **more)
        return run_over_http(turns.base_url, toolbox, tmp_path / "log.jsonl", cancelled=cancelled, **more)

    return working


def test_a_limit_spent_on_reasoning_twice_is_paid_for_though_it_failed(work: Work):
    result = work([LOOK, SPENT, SPENT])
    assert (result.failure and result.failure.kind, result.turns) == ("truncated", 1)
    assert result.usage == Usage(input_tokens=30, output_tokens=2005, cached_tokens=0, requests=3)
    assert result.cost == Cost(amount_usd=1.25, kind="reported")


def test_empty_answers_are_paid_for_before_and_after_they_were_asked_about(work: Work):
    result = work([EMPTY, EMPTY, DONE])
    assert (result.stop_reason, result.nudges, result.usage.requests) == ("submitted", 1, 3)
    assert result.cost == Cost(amount_usd=1.25, kind="reported")


def test_the_budget_knows_what_came_to_nothing(work: Work):
    with ScriptedEndpoint([EMPTY, EMPTY, LOOK, DONE]) as server:
        result = work(server, limits={"budget_usd": 1.1})
    assert (result.stop_reason, len(server.calls)) == ("budget", 3)


def test_a_request_that_was_refused_costs_nothing_and_is_counted(work: Work):
    result = work([LOOK, Turn(fault="500", times=-1)])
    assert (result.failure and result.failure.kind, result.usage.requests) == ("overloaded", 5)
    assert result.cost == Cost(amount_usd=0.25, kind="reported")
    assert result.costs == (result.cost,)


def test_where_all_were_refused_there_is_no_cost_of_any_kind(work: Work):
    result = work([Turn(fault="500", times=-1)])
    assert (result.usage, result.costs, result.cost) == (Usage(requests=4), (), UNKNOWN)


@pytest.mark.parametrize("fault", ["cut", "error_in_stream"])
def test_an_answer_that_broke_off_without_a_count_makes_the_cost_unknown(work: Work, fault: str):
    result = work([LOOK, Turn(text="a b c d e f", fault=fault, times=-1)])
    assert result.failure is not None
    assert UNKNOWN in result.costs
    assert (result.cost, result.usage.input_tokens) == (UNKNOWN, 10)


def test_an_answer_that_the_time_limit_cut_has_an_unknown_cost(work: Work):
    slow = Turn(text="word " * 400, chunk_delay_seconds=0.05)
    result = work([LOOK, slow], limits={"timeout_seconds": 2})
    assert (result.stop_reason, result.usage.requests, result.cost) == ("time_limit", 2, UNKNOWN)


def test_a_cancelled_request_has_an_unknown_cost(work: Work, cancelled: threading.Event):
    with ScriptedEndpoint([LOOK, Turn(fault="hang")]) as server:
        threading.Thread(target=lambda: (server.wait_for(2), cancelled.set())).start()
        result = work(server)
    assert (result.stop_reason, result.usage.requests) == ("cancelled", 2)
    assert (result.cost, Cost(amount_usd=0.25, kind="reported") in result.costs) == (UNKNOWN, True)


def test_on_a_flat_plan_what_broke_off_is_the_plans(work: Work):
    turns = [Turn(text="a b c d", fault="cut", times=-1)]
    result = work(turns, flat_plan=True)
    assert result.cost == Cost(amount_usd=None, kind="flat_plan")


def test_a_request_that_a_killed_process_left_open_is_counted_when_the_run_goes_on(work: Work, tmp_path: Path):
    log = tmp_path / "log.jsonl"
    work([LOOK, DONE])
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    place = [number for number, line in enumerate(lines) if '"type": "request"' in line][1]
    log.write_text("".join(lines[: place + 1]), encoding="utf-8")
    result = work([DONE])
    assert (result.stop_reason, result.turns, result.usage.requests) == ("submitted", 2, 3)
    assert (result.cost, Cost(amount_usd=0.5, kind="reported") in result.costs) == (UNKNOWN, True)
