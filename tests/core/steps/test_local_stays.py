"""Local work in this process, with everything in its way that could lead it out: what it really connected to."""

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from front import Front

from delegation.receipt import Receipt
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.core.steps.one_run import through_the_steps

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def connects() -> Iterator[list[Any]]:
    """The address of every connection that this process opens, as the interpreter itself reports it."""
    found: list[Any] = []
    listening = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and listening[0]:
            found.append(arguments[1])

    sys.addaudithook(hook)
    yield found
    listening[0] = False


@pytest.fixture
def trap() -> Iterator[ScriptedEndpoint]:
    """What local work must never reach: a proxy, or where an endpoint would send it."""
    with ScriptedEndpoint(["I should not have been asked."]) as trap:
        yield trap


@pytest.fixture
def local(front: Front) -> Callable[..., Receipt]:
    """`local(url)`: a card that demands lane local, from its record to its receipt."""

    def doing(url: str, **fields: Any) -> Receipt:
        front.environ |= {"DELEGATE_LOCAL_URL": url, "DELEGATE_LOCAL_MODEL": "local-scripted"}
        delegation_id = front.keep(lane="local", **fields)
        request = front.records.request(delegation_id)
        return through_the_steps(request)

    return doing


def test_the_connections_of_a_local_card_are_its_endpoint_alone(
    local: Callable[..., Receipt],
    trap: ScriptedEndpoint,
    connects: list[Any],
    front: Front,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in PROXIES:
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
        front.environ[name] = f"http://127.0.0.1:{trap.port}"
    monkeypatch.setenv("NO_PROXY", "")
    turns = [Turn(calls=(Call("run_bash", {"command": "env"}),)), Turn(text="Done.")]
    with ScriptedEndpoint(turns) as endpoint:
        receipt = local(endpoint.base_url)
        where = ("127.0.0.1", endpoint.port)
        seen = "".join(endpoint.calls[-1].tool_results)
    assert receipt.failure_kind is None, receipt.failure_message
    assert set(connects) == {where}
    assert receipt.endpoints == (f"http://127.0.0.1:{endpoint.port}",)
    assert (receipt.lane, receipt.model_used, receipt.response_model) == ("local", "local-scripted", "local-scripted")
    assert trap.requests == []
    assert "_API_KEY" not in seen
    assert "sk-of-this-test" not in seen


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(
    local: Callable[..., Receipt], trap: ScriptedEndpoint, connects: list[Any], status: int
):
    away = {"location": f"http://127.0.0.1:{trap.port}/v1/chat/completions"}
    with ScriptedEndpoint(lambda request: Turn(status=status, headers=away, body={})) as endpoint:
        receipt = local(endpoint.base_url)
        assert set(connects) == {("127.0.0.1", endpoint.port)}
    assert receipt.outcome == "failed"
    assert trap.requests == []


def test_a_name_that_leads_out_when_the_connection_is_made_is_refused(
    local: Callable[..., Receipt], connects: list[Any], monkeypatch: pytest.MonkeyPatch
):
    """DNS may answer otherwise by then: on loopback at admission, elsewhere at the connection."""
    answers: list[str] = []
    resolve = socket.getaddrinfo

    def changed(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "localhost":
            answers.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("203.0.113.7", 80))]
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", changed)
    receipt = local("http://localhost:9/v1")
    assert answers
    assert (receipt.failure_kind, receipt.endpoints) == ("privacy", ())
    assert connects == []


def test_the_chain_that_somebody_wrote_into_the_request_is_not_taken(front: Front, trap: ScriptedEndpoint):
    from delegation.slots.chain_state import chain_state_of

    def refusing(request: Request) -> Turn:
        return Turn(fault="insufficient_quota")

    with ScriptedEndpoint(refusing) as endpoint:
        front.environ |= {"DELEGATE_LOCAL_URL": endpoint.base_url, "DELEGATE_LOCAL_MODEL": "local-scripted"}
        request = front.records.request(front.keep(lane="local"))
        away = request.endpoint.model_copy(update={"alias": "cloud", "lane": "metered", "base_url": trap.base_url})
        assert chain_state_of(request.model_copy(update={"chain": (away,)}), []).candidates == (request.endpoint,)
