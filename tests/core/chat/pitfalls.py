"""Wire pitfalls: how one is written down, and checks of what must come of it at a served endpoint."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from delegation.chat.messages import Message, Text, Thinking, ToolResult, ToolUse
from delegation.chat.refusals import Refusal, endpoint_error
from delegation.errors import EndpointError, FailureKind
from delegation.request import Endpoint
from delegation.scripted.endpoint import Call, Turn

LS = Call("run_bash", {"command": "ls"})
PWD = Call("run_bash", {"command": "pwd"})
TWO = [("run_bash", {"command": "ls"}), ("run_bash", {"command": "pwd"})]
GOOD = Turn(text="It is done.")


@dataclass(frozen=True)
class Pitfall:
    rows: tuple[int, ...]
    behaviour: str
    script: tuple[Any, ...]
    check: Callable[[Any], None]
    entry: Mapping[str, Any] = field(default_factory=dict)


def chat_frames(*deltas: Mapping[str, Any], finish: str | None = "stop", done: bool = True) -> tuple[str, ...]:
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return tuple(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + (("data: [DONE]\n\n",) if done else ())


def piece(arguments: str | None = None, **more: Any) -> dict[str, Any]:
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    return {"tool_calls": [{**more, "function": function}]}


# What must come of it


def calls_are(*expected: tuple[str, Any], requests: int = 1) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        reply = served.ask()
        assert [(call.name, call.input) for call in reply.tool_uses] == list(expected)
        assert [call.problem for call in reply.tool_uses] == [None] * len(expected)
        assert len({call.id for call in reply.tool_uses} - {""}) == len(expected)
        assert reply.stop == "tool_use"
        assert reply.usage.requests == len(served.server.calls) == requests

    return check


def text_is(expected: str, requests: int = 1) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        reply = served.ask()
        assert reply.text == expected
        assert reply.stop == "end"
        assert len(served.server.calls) == requests

    return check


def fails_as(kind: FailureKind, requests: int, says: str = "") -> Callable[[Any], None]:
    def check(served: Any) -> None:
        with pytest.raises(EndpointError) as failed:
            served.ask()
        assert failed.value.kind == kind
        assert says in str(failed.value)
        assert len(served.server.calls) == served.model.spent.requests == requests

    return check


def call_has_problem(words: str) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        for call in served.ask().tool_uses:
            assert call.problem is not None
            assert words in call.problem
            assert call.input == {}

    return check


def everything_was_cut(served: Any) -> None:
    reply = served.ask()
    assert reply.stop == "length"
    assert [call.input for call in reply.tool_uses] == [{}, {}]
    assert all("cut off by the output limit" in str(call.problem) for call in reply.tool_uses)


def and_then(first: Callable[[Any], None], *more: Callable[[Any], None]) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        for one in (first, *more):
            one(served)

    return check


def second_request(served: Any, result: str = "fine") -> list[Mapping[str, Any]]:
    """Ask, answer the calls, ask again: the messages that went over the wire the second time."""
    reply = served.ask()
    answers = tuple(ToolResult(call.id, result) for call in reply.tool_uses)
    served.ask(Message.user("Do it."), reply.message, Message("user", answers or (Text("Go on."),)))
    return served.bodies[-1]["messages"]


def made_up_id_is_used_twice(served: Any) -> None:
    sent = second_request(served)
    assert [call["id"] for call in sent[2]["tool_calls"]] == [sent[3]["tool_call_id"]]
    assert sent[3]["tool_call_id"].startswith("call_")


def arguments_go_back_as(expected: str) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        assert second_request(served)[2]["tool_calls"][0]["function"]["arguments"] == expected

    return check


def reasoning_is(expected: str) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        reply = served.ask()
        assert "".join(block.text for block in reply.blocks if isinstance(block, Thinking)) == expected
        assert reply.text == "It is done."

    return check


def reasoning_goes_back_as(**expected: str) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        before = Message("assistant", (Text("Earlier."),))
        reply = served.ask()
        served.ask(Message.user("a"), before, Message.user("b"), reply.message, Message.user("c"))
        spoken = [m for m in served.bodies[-1]["messages"] if m["role"] == "assistant"]
        assert {key: value for key, value in spoken[1].items() if "reasoning" in key} == expected
        empty = dict.fromkeys(expected, "") if "deepseek" in served.model.endpoint.model else {}
        assert {key: value for key, value in spoken[0].items() if "reasoning" in key} == empty

    return check


def usage_is(input_tokens: int | None, output_tokens: int | None, cached_tokens: int | None) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        usage = served.ask().usage
        assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (
            input_tokens,
            output_tokens,
            cached_tokens,
        )

    return check


def nothing_is_repeated_after_shown_text(served: Any) -> None:
    shown: list[str] = []
    with pytest.raises(EndpointError) as failed:
        served.ask(on_text=shown.append)
    assert failed.value.payload_acted_on
    assert shown
    assert len(served.server.calls) == 1


def reasoning_is_not_shown(served: Any) -> None:
    shown: list[str] = []
    served.ask(on_text=shown.append)
    assert "".join(shown) == "It is done."


def limit_is_raised_once(served: Any) -> None:
    assert served.ask().text == "It is done."
    assert [body["max_tokens"] for body in served.bodies] == [1000, 2000]


def hint_is(seconds: float) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        with pytest.raises(EndpointError) as failed:
            served.ask()
        assert failed.value.kind == "throttled"
        assert failed.value.retry_after_seconds == pytest.approx(seconds, abs=1.1)
        assert len(served.server.calls) == 1

    return check


def quota_until(moment: Callable[[], datetime]) -> Callable[[Any], None]:
    def check(served: Any) -> None:
        with pytest.raises(EndpointError) as failed:
            served.ask()
        assert failed.value.kind == "quota"
        assert failed.value.resets_at is not None
        assert abs(failed.value.resets_at - moment()) < timedelta(seconds=5)
        assert len(served.server.calls) == 1

    return check


def same_roles_are_merged(served: Any) -> None:
    served.ask(
        Message.user("one"),
        Message.user("two"),
        Message("assistant", (Text("a"),)),
        Message("assistant", (Text("b"),)),
        Message.user("three"),
    )
    sent = [(message["role"], message["content"]) for message in served.bodies[0]["messages"][1:]]
    assert sent == [("user", "one\n\ntwo"), ("assistant", "a\n\nb"), ("user", "three")]


def second_request_is_not_streamed(served: Any) -> None:
    assert [(call.name, call.input) for call in served.ask().tool_uses] == TWO[:1]
    assert [body.get("stream", False) for body in served.bodies] == [True, False]


def cut_prompt_is_said(served: Any) -> None:
    assert any("2048 input tokens" in warning for warning in served.ask(Message.user("word " * 8000)).warnings)
    assert served.ask(Message.user("word " * 1000)).warnings == ()


def format_decides_the_path(served: Any) -> None:
    served.ask()
    assert [request.path for request in served.server.calls] == ["/v1/messages"]


def base_url_of_the_coding_plan_is_named(served: Any) -> None:
    given = served.model.endpoint.model_dump() | {"base_url": "https://api.z.ai/api/paas/v4"}
    error = endpoint_error(Refusal(429, "insufficient balance", code="1113"), Endpoint(**given), None)
    assert "/api/coding/paas/v4" in str(error)
    given["base_url"] = "https://api.z.ai/api/coding/paas/v4"
    assert "coding/paas" not in str(endpoint_error(Refusal(429, "slow down"), Endpoint(**given), None))


def thinking_goes_only_where_it_came_from(served: Any) -> None:
    signed = served.ask().message
    foreign = Message("assistant", (Thinking("theirs", "x", "elsewhere/m"), Text("b")))
    unsigned = Message("assistant", (Thinking("unsigned", None, served.model._dialect.provider), Text("c")))
    served.ask(Message.user("1"), signed, Message.user("2"), foreign, Message.user("3"), unsigned, Message.user("4"))
    spoken = [m["content"] for m in served.bodies[-1]["messages"] if m["role"] == "assistant"]
    assert spoken[0][0] == {"type": "thinking", "thinking": "Hm, well.", "signature": "A+/b=="}
    assert [[block["type"] for block in content] for content in spoken] == [["thinking", "text"], ["text"], ["text"]]


def unsigned_thinking_goes_back(served: Any) -> None:
    reply = served.ask()
    served.ask(Message.user("1"), reply.message, Message.user("2"))
    assert served.bodies[-1]["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm, well."}


def thought_signature_comes_back(served: Any) -> None:
    call = second_request(served)[2]["tool_calls"][0]
    assert call["extra_content"] == {"google": {"thought_signature": "sig"}}


def thought_signature_goes_to_nobody_else(served: Any) -> None:
    extra = {"provider": "elsewhere/m", "extra_content": {"google": {"thought_signature": "sig"}}}
    use = ToolUse("a", "submit", extra=extra)
    served.ask(Message.user("1"), Message("assistant", (use,)), Message("user", (ToolResult("a", "ok"),)))
    assert set(served.bodies[0]["messages"][2]["tool_calls"][0]) == {"id", "type", "function"}


def open_calls_are_answered(served: Any) -> None:
    use = ToolUse("call_1", "run_bash", {"command": "make"})
    served.ask(Message.user("a"), Message("assistant", (use,)), Message.user("go on"))
    roles = [(m["role"], m.get("tool_call_id")) for m in served.bodies[0]["messages"][1:]]
    assert roles == [("user", None), ("assistant", None), ("tool", "call_1"), ("user", None)]
    assert "interrupted" in served.bodies[0]["messages"][3]["content"]
