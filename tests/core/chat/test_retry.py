"""How often an endpoint is asked again, counted where it counts: at the endpoint."""

import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delegation.chat.attempt import AttemptFailed, Timeouts
from delegation.chat.client import connect
from delegation.chat.messages import Message
from delegation.chat.refusals import Refusal, endpoint_error, kind_of
from delegation.chat.retry import NO_RETRIES, RetryPolicy, Tries
from delegation.chat.wire import Question
from delegation.errors import EndpointError, FailureKind
from delegation.receipt import Usage
from delegation.request import Endpoint
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn

FORMATS = ("openai_chat", "anthropic_messages", "openai_responses")


def failure(served: Any, **how: Any) -> EndpointError:
    with pytest.raises(EndpointError) as failed:
        served.ask(**how)
    return failed.value


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def absent(port: int) -> Endpoint:
    return Endpoint(
        alias="absent",
        base_url=f"http://127.0.0.1:{port}/v1",
        format="openai_chat",
        model="m",
        bucket="b",
        quota_pool="q",
        lane="local",
    )


def ask(model: Any, seconds: float = 10.0) -> Any:
    return model.reply(
        system="", messages=[Message.user("hi")], tools=[], max_tokens=10, deadline=time.monotonic() + seconds
    )


def test_the_error_kinds_of_one_overload_are_all_on_the_reply(serve: Any):
    reply = serve(Turn(fault="500"), Turn(fault="502_html"), Turn(fault="529"), "done").ask()
    assert reply.retried == ("overloaded", "overloaded", "overloaded")
    assert reply.usage.requests == 4
    assert reply.reasks == 0


def test_requests_never_exceed_one_and_retries_and_reasks(serve: Any):
    served = serve(
        Turn(fault="529"), Turn(text=" "), Turn(fault="529"), Turn(fault="disconnect"), Turn(fault="529", times=-1)
    )
    assert failure(served).kind == "overloaded"
    assert len(served.server.calls) == 5


@pytest.mark.parametrize("fault", ["insufficient_quota", "credit_low", "limit_0", "402", "quota"])
@pytest.mark.parametrize("wire", FORMATS)
def test_a_spent_quota_takes_exactly_one_request(serve: Any, wire: str, fault: str):
    served = serve(Turn(fault=fault, times=-1), wire=wire)
    assert failure(served).kind == "quota"
    assert len(served.server.calls) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ("401", "auth", 401),
        ("403", "auth", 403),
        ("400_no_db", "auth", 400),
        ("404_model", "model_not_found", 404),
        ("400_model", "model_not_found", 400),
        ("404", "bad_request", 404),
        ("400", "bad_request", 400),
        ("400_context", "context_overflow", 400),
        ("400_llama_context", "context_overflow", 400),
        ("400_anthropic_context", "context_overflow", 400),
        ("400_litellm_context", "context_overflow", 400),
        ("413", "context_overflow", 413),
        ("redirect", "bad_request", 307),
        ("html", "bad_request", 200),
    ],
)
@pytest.mark.parametrize("wire", FORMATS)
def test_what_another_try_cannot_mend_takes_one_request(
    serve: Any, wire: str, fault: str, kind: FailureKind, status: int
):
    served = serve(Turn(fault=fault, times=-1), wire=wire)
    error = failure(served)
    assert (error.kind, error.status) == (kind, status)
    assert len(served.server.requests) == 1


def test_a_per_minute_quota_is_throttling():
    words = "You exceeded your current quota, please check your plan. Please retry in 32.5s."
    assert kind_of(Refusal(429, words), 32.5) == "throttled"
    assert kind_of(Refusal(429, words), 7200.0) == "quota"
    assert kind_of(Refusal(429, words + " limit: 0"), 32.5) == "quota"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -5, "soon", None, 1e300, 10**400])
def test_an_odd_reset_time_of_a_quota_is_unknown_or_bounded(value: Any):
    body = {"resets_at": value, "resets_in_seconds": value}
    error = endpoint_error(Refusal(429, "gone", "usage_limit_reached", body=body), absent(1), None)
    assert error.kind == "quota"
    assert error.resets_at is None or error.resets_at < datetime.now(UTC) + timedelta(days=32)


def test_a_short_hint_of_an_overloaded_endpoint_is_waited_for(serve: Any):
    served = serve(Turn(fault="529", retry_after="0.3"), "done")
    start = time.monotonic()
    assert served.ask().retried == ("overloaded",)
    assert 0.3 <= time.monotonic() - start < 1.5


@pytest.mark.parametrize("hint", ["1", "2"])
def test_too_many_requests_are_left_to_the_caller_at_once_whatever_the_hint(serve: Any, hint: str):
    served = serve(Turn(fault="429", retry_after=hint, times=-1))
    start = time.monotonic()
    error = failure(served)
    assert (error.kind, error.retry_after_seconds) == ("throttled", float(hint))
    assert time.monotonic() - start < 0.5
    assert len(served.server.calls) == 1


@pytest.mark.parametrize("value", ["", "-5", "NaN", "inf", "soon", "99999999999999999999"])
def test_an_unusable_hint_is_no_busy_loop(serve: Any, value: str):
    served = serve(Turn(fault="429_no_hint", retry_after=value, times=-1))
    assert failure(served).kind == "throttled"
    assert len(served.server.calls) == 1


@pytest.mark.parametrize("fault", ["502_html", "503_html", "html"])
def test_a_web_page_is_named_and_not_quoted(serve: Any, fault: str):
    error = failure(serve(Turn(fault=fault, times=-1)))
    assert "a web page" in str(error)
    assert len(str(error)) < 300


def test_a_server_that_restarts_is_waited_for():
    port = free_port()
    policy = RetryPolicy(connect_waits_seconds=(0.05,) * 100, chance=lambda: 0.0)
    late: list[ScriptedEndpoint] = []
    starter = threading.Timer(0.3, lambda: late.append(ScriptedEndpoint(["back"], port=port).start()))
    starter.start()
    try:
        with connect(absent(port), None, policy=policy) as model:
            reply = ask(model)
    finally:
        starter.join()
        late[0].close()
    assert reply.text == "back"
    assert reply.usage.requests == 1
    assert set(reply.retried) == {"unreachable"}
    assert len(reply.retried) >= 3


def test_the_ladder_for_refused_connections_is_longer_than_a_proxy_takes_to_restart():
    assert sum(RetryPolicy().connect_waits_seconds) >= 95


def test_the_ladder_ends_with_the_deadline():
    start = time.monotonic()
    with connect(absent(free_port()), None) as model, pytest.raises(EndpointError) as failed:
        ask(model, seconds=0.5)
    assert failed.value.kind == "unreachable"
    assert time.monotonic() - start < 1.0
    assert model.contacted == set()


def test_a_port_where_nobody_listens_is_unreachable_and_took_no_request():
    with connect(absent(free_port()), None, policy=NO_RETRIES) as model, pytest.raises(EndpointError) as failed:
        ask(model)
    assert failed.value.kind == "unreachable"
    assert model.spent.requests == 0


def test_a_server_that_does_not_speak_tls_is_unreachable(serve: Any):
    served = serve("hi")
    base_url = served.server.base_url.replace("http:", "https:")
    with (
        connect(served.model.endpoint.model_copy(update={"base_url": base_url}), None, policy=NO_RETRIES) as model,
        pytest.raises(EndpointError) as failed,
    ):
        ask(model)
    assert failed.value.kind == "unreachable"


@pytest.mark.parametrize("fault", ["hang", "hang_stream"])
def test_silence_is_unreachable_and_tried_twice(serve: Any, fault: str):
    served = serve(Turn(text="a b c d e f g", fault=fault, times=-1), timeouts=Timeouts(read_gap=0.2))
    assert failure(served).kind == "unreachable"
    assert len(served.server.calls) == 2


@pytest.mark.parametrize("fault", ["hang", "hang_stream", "slow"])
def test_the_deadline_ends_an_answer_that_does_not_end(serve: Any, fault: str):
    served = serve(Turn(text="word " * 100, fault=fault, times=-1))
    start = time.monotonic()
    assert failure(served, seconds=0.5).kind == "time_limit"
    assert time.monotonic() - start < 0.8
    assert len(served.server.calls) == 1


def test_a_wait_that_outlasts_the_deadline_is_not_begun(serve: Any):
    served = serve(Turn(fault="529", retry_after="1", times=-1))
    start = time.monotonic()
    assert failure(served, seconds=0.4).kind == "overloaded"
    assert time.monotonic() - start < 0.3


def test_an_end_without_end_of_data_is_not_waited_for(serve: Any):
    frames = ('data: {"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}\n\n',) * 1
    served = serve(Turn(frames=(*frames, ": ping\n\n", ": ping\n\n", ": ping\n\n"), fault="hang_stream"))
    start = time.monotonic()
    assert served.ask().text == "done"
    assert time.monotonic() - start < 1.0


def test_tokens_and_cost_of_an_answer_that_was_no_use_are_counted(serve: Any):
    used = {"input": 10, "output": 5}
    reply = serve(Turn(text=" ", usage=used, cost_usd=0.25), Turn(text="a", usage=used, cost_usd=0.5)).ask()
    assert reply.usage == Usage(input_tokens=20, output_tokens=10, cached_tokens=0, requests=2)
    assert reply.cost_usd == 0.75
    assert reply.reasks == 1


def test_one_unknown_cost_makes_the_sum_unknown(serve: Any):
    assert serve(Turn(text=" "), Turn(text="a", cost_usd=0.5)).ask().cost_usd is None


def test_what_failed_replies_took_is_in_spent(serve: Any):
    served = serve(Turn(text=" ", usage={"input": 10, "output": 5}, times=-1))
    failure(served)
    assert served.model.spent == Usage(input_tokens=20, output_tokens=10, cached_tokens=0, requests=2)


def test_a_raised_limit_that_is_refused_reports_the_spent_one(serve: Any):
    served = serve(Turn(thinking="Hm", fault="length"), Turn(fault="400", times=-1))
    assert failure(served).kind == "truncated"
    assert len(served.server.calls) == 2


def test_the_limit_is_raised_no_further_than_the_endpoint_allows(serve: Any):
    served = serve(Turn(thinking="Hm", fault="length"), "done", max_output_tokens=1200)
    served.ask()
    assert [body["max_tokens"] for body in served.bodies] == [1000, 1200]


def test_connections_are_used_again(serve: Any):
    served = serve(*["fine"] * 5)
    for _ in range(5):
        served.ask()
    assert served.server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(serve: Any):
    served = serve("one", Turn(fault="disconnect"), "two")
    assert [served.ask().text, served.ask().text] == ["one", "two"]


def waits(kind: FailureKind, chance: float) -> list[float]:
    tries = Tries(replace(RetryPolicy(), chance=lambda: chance), 1000)
    question: Any = Question(absent(1), None, "", [], [], 10, True)  # type: ignore[arg-type]  # no dialect is needed
    found: list[float] = []
    while (again := tries.after(AttemptFailed(EndpointError(kind, "x"), "retry"), question)) is not None:
        found.append(again[1])
    return found


def test_waits_grow_and_overload_waits_longer():
    assert waits("stalled", 1.0) == [1.0, 2.0, 4.0]
    assert waits("stalled", 0.0) == [0.5, 1.0, 2.0]
    assert waits("overloaded", 1.0) == [2.0, 4.0, 8.0]


def test_a_call_is_given_back_only_once_it_is_complete(serve: Any):
    big = Call("run_bash", {"command": "echo " + "x" * 5000})
    served = serve(Turn(text="I will write", calls=(big,), fault="error_after_call"), "Nothing to do.")
    reply = served.ask()
    assert reply.tool_uses == ()
    assert reply.text == "Nothing to do."
