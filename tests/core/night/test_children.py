"""Handing a night's delegations over: a server that is away is asked again, one that refuses ends the delegation."""

import logging
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from delegation.night.scheduler import decide
from delegation.receipt import Receipt
from delegation.request import DelegationRequest
from tasks import children
from tasks.children import Children

if TYPE_CHECKING:
    from tests.core.night.conftest import Table


class Server(Children):
    """Answers each creation with the next of `answers`: an error, or a flow run's id."""

    answers: list[Any]

    def _create(self, request: DelegationRequest) -> None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        self._family.records.remember_flow_run(request.id, answer)


def answered(status: int) -> PrefectHTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:9/x")
    error = httpx.HTTPStatusError("no", request=request, response=httpx.Response(status, request=request))
    return PrefectHTTPStatusError.from_httpx_error(error)


def test_what_the_server_refuses_is_lost_and_what_it_cannot_take_now_is_asked_again(
    table: "Table", monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(children, "get_run_logger", lambda: logging.getLogger("night"))
    table.write(a="", b="", c="")
    shift = table.open()
    ids = table.start(shift, decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun)))
    server = Server(shift, shift.night_id)
    server.answers = [httpx.ConnectError("away"), answered(503), answered(422), "run-b", answered(429), "run-c"]
    for _ in range(3):
        server.hand_over()
    receipt = shift.receipt(ids["a"])

    assert isinstance(receipt, Receipt)
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "lost")
    assert shift.records.entry(ids["b"]).flow_run_id == "run-b"
    assert shift.records.entry(ids["c"]).flow_run_id is None
    server.hand_over()
    assert shift.records.entry(ids["c"]).flow_run_id == "run-c"
    server.hand_over()
    assert server.answers == []


def test_a_night_that_is_over_ends_what_it_began_and_nobody_elses(table: "Table"):
    table.write(a="key: once")
    first = table.open(name="one")
    table.start(first, decide(first.jobs, first.rules, first.standing(table.state, first.begun)))
    table.write(b="")
    second = table.open("part-2", name="two")
    ids = table.start(second, decide(second.jobs, second.rules, second.standing(table.state, second.begun)))
    Children(second, second.night_id).cancel_waiting()

    assert second.receipt(ids["a"]) is None, "the first night works on it"
    receipt = second.receipt(ids["b"])
    assert isinstance(receipt, Receipt)
    assert receipt.outcome == "cancelled"
