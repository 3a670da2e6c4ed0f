"""Where a delegation stands in its chain, read from its log, and which model did what part."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delegation.agents.attempts import attempts_in
from delegation.agents.trajectory import Event
from delegation.request import DelegationRequest, Endpoint
from delegation.slots.chain_state import ChainState, chain_state_of

Model = Callable[[str], Endpoint]

HEADER: Event = {"type": "header", "alias": "a"}
REPLY: Event = {
    "type": "reply",
    "usage": {"input_tokens": 10, "output_tokens": 1, "requests": 1},
    "cost": {"amount_usd": 0.5, "kind": "reported"},
}


def gave_up(alias: str, kind: str) -> Event:
    return {"type": "gave_up", "alias": alias, "failure_kind": kind, "failure_message": kind}


def wait(alias: str) -> Event:
    return {"type": "wait", "alias": alias, "failure_kind": "throttled", "failure_message": "429"}


def handover(old: str, new: str, kind: str | None) -> Event:
    facts = {"failure_kind": kind, "failure_message": str(kind), "files": ["x.py"]}
    return {"type": "handover", "from": old, "to": new, **facts}


def logged(*events: Event) -> list[Event]:
    return [{**event, "seq": place, "time": f"2026-11-30T12:00:{place:02}+00:00"} for place, event in enumerate(events)]


def course(model: Model, *events: Event, chain: str = "abc") -> ChainState:
    endpoints = [model(alias) for alias in chain]
    request = cast(
        DelegationRequest,
        SimpleNamespace(card=SimpleNamespace(lane=None), endpoint=endpoints[0], chain=tuple(endpoints[1:])),
    )
    return chain_state_of(request, logged(*events))


def order(found: ChainState) -> str:
    return "".join(each.alias for each in found.candidates)


@pytest.mark.parametrize(
    ("events", "expected", "untried"),
    [
        ((), "abc", True),
        ((HEADER, REPLY), "abc", True),
        ((HEADER, gave_up("a", "throttled")), "bca", True),
        ((HEADER, gave_up("a", "unreachable")), "bc", True),
        ((HEADER, gave_up("a", "quota"), handover("a", "b", "quota")), "bca", True),
        ((HEADER, handover("a", "b", None)), "bca", True),
        ((HEADER, gave_up("a", "quota"), handover("a", "b", "quota"), gave_up("b", "quota")), "cab", True),
        (
            (HEADER, handover("a", "b", "quota"), handover("b", "c", "model_not_found")),
            "ca",
            False,
        ),
        ((HEADER, handover("a", "b", "quota"), handover("b", "c", "quota"), handover("c", "a", "quota")), "abc", False),
        ((HEADER, *(gave_up(alias, "unreachable") for alias in "abc")), "a", False),
    ],
)
def test_the_model_at_work_comes_first_then_the_untried_then_those_that_only_wait(
    model: Model, events: tuple[Event, ...], expected: str, untried: bool
):
    found = course(model, *events)
    assert (order(found), found.untried) == (expected, untried)


def test_refusals_in_a_row_are_counted_until_a_reply_or_another_model(model: Model):
    assert course(model, HEADER, REPLY, wait("a"), wait("a")).throttles == 2
    assert course(model, HEADER, wait("a"), REPLY, wait("a")).throttles == 1
    assert course(model, HEADER, wait("a"), handover("a", "b", "throttled")).throttles == 0


def test_what_stands_before_a_continuation_is_another_delegations(model: Model):
    events = (HEADER, REPLY, gave_up("a", "quota"), {"type": "continued"})
    found = course(model, *events)
    assert (order(found), found.at_work) == ("abc", None)
    assert attempts_in(logged(*events), [model("a")]) == ()
    own = attempts_in(logged(*events, REPLY), [model("a")])
    assert [(each.alias, each.turns) for each in own] == [("a", 1)]


def test_each_model_has_its_own_turns_usage_and_cost(model: Model):
    wasted: Event = {"type": "wasted", "usage": {"requests": 2}, "cost": None}
    events = logged(
        HEADER, REPLY, REPLY, gave_up("a", "quota"), handover("a", "b", "quota"), wasted, REPLY, {"type": "end"}
    )
    first, second = attempts_in(events, [model("a"), model("b")])
    assert (first.alias, first.turns, first.usage.requests, first.cost.amount_usd) == ("a", 2, 2, 1.0)
    assert (first.failure_kind, first.files, first.bucket) == ("quota", ("x.py",), "b-a")
    assert (second.alias, second.turns, second.usage.requests, second.cost.amount_usd) == ("b", 1, 3, 0.5)
    assert (second.failure_kind, second.files) == (None, None)


def test_a_log_without_a_beginning_names_nobody(model: Model):
    assert attempts_in([], [model("a")]) == ()
    found: Any = course(model)
    assert found.at_work is None


def test_a_wait_for_what_another_was_refused_is_no_refusal_of_this_run(model: Model):
    waits = [{"type": "wait", "alias": "a", "failure_kind": "throttled", "asked": asked} for asked in (True, False)]
    assert course(model, {"type": "header", "alias": "a"}, *waits).throttles == 1
