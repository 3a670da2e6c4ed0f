"""What goes over the wire, what is connected to, and how soon a reply can be stopped."""

import threading
import time
from typing import Any

import pytest

from delegation.chat.client import connect
from delegation.chat.messages import Message, Text, ToolResult, ToolUse
from delegation.chat.network import local_only, no_metadata
from delegation.errors import Cancelled, EndpointError
from delegation.scripted.endpoint import Call, Turn

FORMATS = ("openai_chat", "anthropic_messages", "openai_responses")


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_one_answer_is_the_same_in_every_format(serve: Any, wire: str, stream: bool):
    turn = Turn(
        text="I look.",
        thinking="Hm.",
        calls=(Call("run_bash", {"command": "ls"}, id="call_a"), Call("read_file", {"path": "ä"}, id="call_b")),
        usage={"input": 50, "output": 7, "cached": 30},
        model="upstream-1",
    )
    reply = serve(turn, wire=wire, stream=stream).ask()
    assert reply.text == "I look."
    assert [(use.id, use.name, use.input) for use in reply.tool_uses] == [
        ("call_a", "run_bash", {"command": "ls"}),
        ("call_b", "read_file", {"path": "ä"}),
    ]
    assert (reply.stop, reply.response_model, reply.reasks, reply.retried) == ("tool_use", "upstream-1", 0, ())
    assert reply.usage.model_dump() == {"input_tokens": 50, "output_tokens": 7, "cached_tokens": 30, "requests": 1}


@pytest.mark.parametrize("wire", FORMATS)
def test_a_conversation_with_tools_goes_on(serve: Any, wire: str):
    served = serve(Turn(calls=(Call("run_bash", {"command": "ls"}),)), "Two files.", wire=wire)
    first = served.ask()
    result = Message("user", (ToolResult(first.tool_uses[0].id, "a b"),))
    assert served.ask(Message.user("Do it."), first.message, result).text == "Two files."
    assert served.server.calls[1].tool_results == ("a b",)
    assert served.server.calls[1].turn == 1
    assert served.server.calls[1].tools == ("run_bash", "read_file", "submit")


def test_the_key_goes_as_bearer_to_chat(serve: Any):
    served = serve("hi")
    served.ask()
    headers = served.server.calls[0].headers
    assert headers["authorization"] == "Bearer secret-key-value"
    assert "x-api-key" not in headers


def test_the_key_goes_under_both_names_to_messages(serve: Any):
    served = serve("hi", wire="anthropic_messages")
    served.ask()
    headers = served.server.calls[0].headers
    assert (headers["authorization"], headers["x-api-key"]) == ("Bearer secret-key-value", "secret-key-value")
    assert headers["anthropic-version"] == "2023-06-01"


def test_the_default_endpoint_may_be_any_proxy_and_gets_the_key_under_both_names_in_chat_too(serve: Any):
    served = serve("hi", key_name="DELEGATE_LOCAL_KEY")
    served.ask()
    headers = served.server.calls[0].headers
    assert (headers["authorization"], headers["x-api-key"]) == ("Bearer secret-key-value", "secret-key-value")


def test_no_key_sends_no_key(serve: Any):
    served = serve("hi", key=None, headers={"x-lane": "code"})
    served.ask()
    assert "authorization" not in served.server.calls[0].headers
    assert served.server.calls[0].headers["x-lane"] == "code"


@pytest.mark.parametrize("wire", FORMATS)
def test_the_key_is_in_no_error(serve: Any, wire: str):
    said = "Incorrect API key provided: secret-key-value (also sk-abcdef1234567890, Bearer secret-key-value)."
    served = serve(Turn(fault="401", message=said, times=-1), wire=wire)
    with pytest.raises(EndpointError) as failed:
        served.ask()
    assert "secret-key-value" not in repr(failed.value) + str(failed.value)
    assert "sk-abcdef" not in str(failed.value)
    assert "SCRIPTED_KEY" in str(failed.value)


@pytest.mark.parametrize("key", ["line\nbreak", "schlüssel", "nul\0"])
def test_a_key_that_cannot_be_sent_is_a_config_error_that_does_not_show_it(serve: Any, key: str):
    served = serve("hi", key=key)
    with pytest.raises(EndpointError) as failed:
        served.ask()
    assert failed.value.kind == "config"
    assert key not in str(failed.value)
    assert served.server.calls == []


def test_proxies_of_the_environment_are_not_used(serve: Any, monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    served = serve("hi")
    assert served.ask().text == "hi"
    assert served.model.contacted == {f"http://127.0.0.1:{served.server.port}"}


def test_a_proxy_that_is_given_is_used_and_named(serve: Any):
    served = serve("through the proxy")
    endpoint = served.model.endpoint.model_copy(update={"base_url": "http://model.invalid/v1"})
    with connect(endpoint, None, proxy=f"http://127.0.0.1:{served.server.port}") as model:
        served.model = model
        assert served.ask().text == "through the proxy"
    assert model.contacted == {f"http://127.0.0.1:{served.server.port}"}


def test_lane_local_never_leaves(serve: Any):
    guard = local_only(["gpu.lan", "192.168.1.0/24", "10.0.0.7"])
    assert [guard("x", address) for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "192.168.1.9", "10.0.0.7")] == [
        None
    ] * 5
    assert guard("gpu.lan", "172.16.0.4") is None
    assert "never leaves" in str(guard("api.example.com", "93.184.216.34"))
    assert guard("x", "10.0.0.8") is not None


def test_metadata_services_are_out_of_reach():
    guard = no_metadata([])
    assert [guard("x", address) for address in ("93.184.216.34", "127.0.0.1", "10.0.0.8")] == [None] * 3
    assert all(guard("x", address) for address in ("169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0"))
    assert no_metadata(["169.254.1.1"])("x", "169.254.1.1") is None


def test_an_address_that_is_not_allowed_is_never_connected_to(serve: Any):
    served = serve("hi")
    with connect(served.model.endpoint, None, guard=lambda host, address: f"{address} is not for {host}") as model:
        served.model = model
        with pytest.raises(EndpointError) as failed:
            served.ask()
    assert failed.value.kind == "privacy"
    assert (served.server.connections, model.contacted) == (0, set())


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("fault", ["hang", "hang_stream"])
def test_a_hanging_reply_is_cancelled_within_a_third_of_a_second(serve: Any, wire: str, fault: str):
    served = serve(Turn(text="word " * 20, fault=fault), wire=wire)
    cancelled = threading.Event()
    at: list[float] = []

    def cancel() -> None:
        served.server.wait_for(1)
        at.append(time.monotonic())
        cancelled.set()

    threading.Thread(target=cancel).start()
    with pytest.raises(Cancelled):
        served.ask(cancelled=cancelled)
    assert time.monotonic() - at[0] < 0.3
    served.server.wait_gone()


def test_a_wait_between_requests_is_cancelled_at_once(serve: Any):
    served = serve(Turn(fault="529", retry_after="1", times=-1))
    cancelled = threading.Event()
    threading.Thread(target=lambda: (served.server.wait_for(1), cancelled.set())).start()
    start = time.monotonic()
    with pytest.raises(Cancelled):
        served.ask(cancelled=cancelled)
    assert time.monotonic() - start < 0.6


def test_a_client_can_be_used_after_a_cancelled_reply(serve: Any):
    served = serve(Turn(fault="hang"), "fine")
    cancelled = threading.Event()
    threading.Thread(target=lambda: (served.server.wait_for(1), cancelled.set())).start()
    with pytest.raises(Cancelled):
        served.ask(cancelled=cancelled)
    assert served.ask().text == "fine"


def test_cost_and_routing_of_a_proxy_are_read(serve: Any):
    headers = {"x-litellm-response-cost": "0.0125", "x-litellm-model-id": "m-1", "x-bifrost-routing-info-provider": "p"}
    reply = serve(Turn(text="hi", headers=headers)).ask()
    assert reply.cost_usd == 0.0125
    assert reply.routing == {"x-litellm-model-id": "m-1", "x-bifrost-routing-info-provider": "p"}


@pytest.mark.parametrize("value", ["None", "", "nan", "-1"])
def test_a_cost_that_is_none_is_unknown(serve: Any, value: str):
    assert serve(Turn(text="hi", headers={"x-litellm-response-cost": value})).ask().cost_usd is None


def test_a_cost_of_zero_is_known(serve: Any):
    assert serve(Turn(text="hi", cost_usd=0.0)).ask().cost_usd == 0.0


def test_text_arrives_while_the_reply_is_still_being_written(serve: Any):
    served = serve(Turn(text="one two three four five six", chunk_delay_seconds=0.02))
    shown: list[str] = []
    reply = served.ask(on_text=shown.append)
    assert len(shown) > 1
    assert "".join(shown) == reply.text


def test_text_that_json_cannot_carry_is_replaced(serve: Any):
    served = serve("hi")
    use = ToolUse("a", "run_bash", {"command": "\ud800"})
    served.ask(
        Message.user("nul \0 and \udc80"), Message("assistant", (use,)), Message("user", (ToolResult("a", "\0"),))
    )
    assert served.bodies[0]["messages"][1]["content"] == "nul \ufffd and \ufffd"
    assert served.bodies[0]["messages"][3]["content"] == "\ufffd"


def marks(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(marks(one) for one in value.values())
    return sum(marks(one) for one in value) if isinstance(value, list) else 0


def test_cache_marks_are_never_more_than_four_and_never_stay_in_the_history(serve: Any):
    served = serve(Turn(text="fine", times=-1), wire="anthropic_messages", model="claude-x")
    history = [Message.user("start")]
    before = []
    for number in range(6):
        history.append(served.ask(*history).message)
        history.append(Message("user", (Text(f"go on {number}"),)))
        before.append([message.to_json() for message in history])
    assert [marks(dict(body)) for body in served.bodies] == [3, 4, 4, 4, 4, 4]
    last = served.bodies[-1]
    assert marks(last["system"]) == marks(last["tools"]) == 1
    assert [marks(message) for message in last["messages"]][-3:] == [1, 0, 1]
    assert marks(before[-1]) == 0


def test_the_beginning_of_a_conversation_stays_the_same_from_turn_to_turn(serve: Any):
    served = serve(Turn(text="fine", thinking="Hm.", times=-1))
    history = [Message.user("start")]
    for number in range(3):
        history += [served.ask(*history).message, Message.user(f"go on {number}")]
    bodies = served.bodies
    assert bodies[1]["messages"][: len(bodies[0]["messages"])] == bodies[0]["messages"]
    assert bodies[2]["messages"][: len(bodies[1]["messages"])] == bodies[1]["messages"]
    assert bodies[2]["tools"] == bodies[0]["tools"]


def test_cache_marks_go_only_where_they_are_taken(serve: Any):
    unknown = serve("hi", wire="anthropic_messages")
    unknown.ask()
    asked = serve("hi", wire="anthropic_messages", prompt_cache=True)
    asked.ask()
    assert (marks(dict(unknown.bodies[0])), marks(dict(asked.bodies[0]))) == (0, 3)


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("gpt-6.1-terra", "max_completion_tokens"),
        ("o3", "max_completion_tokens"),
        ("gpt-oss-20b", "max_tokens"),
        ("deepseek-v4-flash", "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_the_model_knows(serve: Any, model: str, field: str):
    served = serve("hi", model=model)
    served.ask()
    assert {"max_tokens", "max_completion_tokens"} & set(served.bodies[0]) == {field}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_endpoint_that_does_not_stop_sending_is_left_after_one_request(
    serve: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("delegation.chat.attempt.LONGEST_ANSWER_BYTES", 100_000)
    monkeypatch.setattr("delegation.chat.attempt.LONGEST_WHOLE_BYTES", 100_000)
    served = serve(Turn(text="word " * 50_000, times=-1), stream=stream)
    with pytest.raises(EndpointError, match="sent more than 0 MiB as one answer") as failed:
        served.ask()
    assert failed.value.kind == "truncated"
    assert len(served.server.calls) == 1


def test_a_compressed_answer_is_not_unpacked(serve: Any):
    served = serve(Turn(text="fine", headers={"content-encoding": "gzip"}, status=200, body="x"))
    with pytest.raises(EndpointError, match="compressed its answer"):
        served.ask()
    assert served.server.calls[0].headers["accept-encoding"] == "identity"
