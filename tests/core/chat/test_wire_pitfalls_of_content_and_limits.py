"""Streams, reasoning, limits and histories that depart from the format: 30 to 63 of the project's list.

64 and 65 belong to the command-line agents.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delegation.scripted.endpoint import Turn
from tests.core.chat.pitfalls import (
    GOOD,
    LS,
    PWD,
    TWO,
    Pitfall,
    base_url_of_the_coding_plan_is_named,
    calls_are,
    chat_frames,
    cut_prompt_is_said,
    fails_as,
    format_decides_the_path,
    hint_is,
    limit_is_raised_once,
    open_calls_are_answered,
    piece,
    quota_until,
    reasoning_goes_back_as,
    reasoning_is,
    reasoning_is_not_shown,
    same_roles_are_merged,
    second_request_is_not_streamed,
    text_is,
    thinking_goes_only_where_it_came_from,
    thought_signature_comes_back,
    thought_signature_goes_to_nobody_else,
    unsigned_thinking_goes_back,
    usage_is,
)

ANTHROPIC = {"wire": "anthropic_messages"}
RESPONSES = {"wire": "openai_responses"}
TEXT_CALLS = {"text_tool_calls": True}
HIDDEN = "<tool_call><function=run_bash><parameter=command>ls</parameter></function></tool_call>"
GEMINI = chat_frames(
    piece("{}", index=0, id="a", name="submit", extra_content={"google": {"thought_signature": "sig"}}),
    finish="tool_calls",
)


def text_frames(text: str) -> tuple[str, ...]:
    return chat_frames(*({"content": one} for one in text), finish="stop")


PITFALLS = [
    *(
        Pitfall((row,), fault, (Turn(text="It is done – 好.", calls=(LS, PWD), fault=fault),), calls_are(*TWO), entry)
        for row, fault in (
            (30, "keepalive"),
            (31, "keepalive_data"),
            (32, "empty_events"),
            (33, "crlf"),
            (33, "bytewise"),
            (33, "multiline_data"),
        )
        for entry in ({}, ANTHROPIC, RESPONSES)
    ),
    Pitfall(
        (34,),
        "usage without choices in it",
        (Turn(text="a", usage={"input": 7, "output": 3, "cached": 2}),),
        usage_is(7, 3, 2),
    ),
    Pitfall((35,), "usage without the key choices", (Turn(text="a", fault="usage_no_choices"),), usage_is(100, 20, 0)),
    Pitfall((35,), "usage in the last piece", (Turn(text="a", fault="usage_in_last"),), usage_is(100, 20, 0)),
    Pitfall(
        (35,),
        "usage only at the end of a message",
        (Turn(text="a", usage={"input": 9, "output": 4, "cached": 5}, fault="usage_late"),),
        usage_is(9, 4, 5),
        ANTHROPIC,
    ),
    Pitfall((36,), "reasoning_content", (Turn(text="It is done.", thinking="Hm, well."),), reasoning_is("Hm, well.")),
    Pitfall(
        (36,),
        "reasoning",
        (Turn(text="It is done.", thinking="Hm, well.", fault="field_reasoning"),),
        reasoning_is("Hm, well."),
    ),
    Pitfall(
        (36,),
        "reasoning_details",
        (Turn(text="It is done.", thinking="Hm, well.", fault="reasoning_details"),),
        reasoning_is("Hm, well."),
    ),
    Pitfall(
        (37,),
        "the request's field can be named",
        (Turn(text="a", thinking="Hm."), GOOD),
        reasoning_goes_back_as(reasoning="Hm."),
        {"resend_reasoning": True, "reasoning_field": "reasoning"},
    ),
    Pitfall(
        (38,),
        "R1 never gets its reasoning back",
        (Turn(text="a", thinking="Hm."), GOOD),
        reasoning_goes_back_as(),
        {"resend_reasoning": True, "model": "deepseek-reasoner"},
    ),
    Pitfall(
        (39,),
        "V4 gets it on every message",
        (Turn(text="a", thinking="Hm."), GOOD),
        reasoning_goes_back_as(reasoning_content="Hm."),
        {"resend_reasoning": True, "model": "deepseek-v4-flash"},
    ),
    Pitfall(
        (40,),
        "unsigned thinking goes back where it is wanted",
        (Turn(text="a", thinking="Hm, well.", signature=None), GOOD),
        unsigned_thinking_goes_back,
        {**ANTHROPIC, "resend_reasoning": True, "model": "deepseek-v4-flash"},
    ),
    Pitfall((41,), "messages of one side are merged", (GOOD,), same_roles_are_merged),
    Pitfall(
        (42,),
        "a limit spent on reasoning is raised once",
        (Turn(thinking="Hm", fault="length"), GOOD),
        limit_is_raised_once,
    ),
    Pitfall(
        (42,),
        "a limit spent twice is a failure",
        (Turn(thinking="Hm", fault="length", times=-1),),
        fails_as("truncated", 2, "reasoning"),
        ANTHROPIC,
    ),
    Pitfall((43,), "an empty answer is asked for again", (Turn(thinking="Hm"), GOOD), text_is("It is done.", 2)),
    Pitfall((43,), "an empty answer is a failure", (Turn(text="  \n", times=-1),), fails_as("empty_answer", 2)),
    Pitfall(
        (43,),
        "an answer of thinking alone is a failure",
        (Turn(thinking="Hm", times=-1),),
        fails_as("empty_answer", 2, "only reasoning"),
        ANTHROPIC,
    ),
    Pitfall((44,), "tokens counted as 0 are unknown", (Turn(text="a", fault="usage_zero"),), usage_is(100, None, 0)),
    Pitfall(
        (44,),
        "thinking alone under stop",
        (Turn(thinking="Hm", fault="usage_zero", times=-1),),
        fails_as("empty_answer", 2),
    ),
    Pitfall(
        (45,),
        "a closing tag without an opening one",
        (Turn(frames=text_frames("Hm, well.</think>\nIt is done.")),),
        reasoning_is("Hm, well."),
    ),
    Pitfall(
        (46,),
        "tags across pieces",
        (Turn(frames=text_frames("<think>Hm, well.</think>\n\nIt is done.")),),
        reasoning_is("Hm, well."),
    ),
    Pitfall(
        (46,),
        "tags are not shown",
        (Turn(frames=text_frames("<think>Hm, well.</think>It is done.")),),
        reasoning_is_not_shown,
    ),
    *(
        Pitfall((row,), f"written as {text[:14]}", (Turn(text=text),), calls_are(TWO[0]), TEXT_CALLS)
        for row, text in (
            (47, '<tool_call>\n{"name": "run_bash", "arguments": {"command": "ls"}}\n</tool_call>'),
            (
                47,
                "Now:\n<tool_call>\n<function=run_bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
            ),
            (
                47,
                '<invoke name="run_bash"><parameter name="command">ls</parameter></invoke>',
            ),
            (47, "<tool_call>run_bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"),
            (48, "<function=run_bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"),
        )
    ),
    Pitfall((47,), "stays text where it is not switched on", (Turn(text=HIDDEN),), text_is(HIDDEN)),
    Pitfall(
        (49,),
        "a call inside reasoning is asked for again",
        (Turn(thinking=HIDDEN, times=-1),),
        fails_as("empty_answer", 2, "inside the reasoning"),
    ),
    Pitfall((49,), "a call inside reasoning is read", (Turn(thinking=HIDDEN),), calls_are(TWO[0]), TEXT_CALLS),
    Pitfall(
        (50,),
        "a stream that drops its calls",
        (Turn(frames=chat_frames({"content": ""}, finish="tool_calls")), Turn(calls=(LS,))),
        second_request_is_not_streamed,
    ),
    Pitfall(
        (51,),
        "a prompt that was cut silently",
        (Turn(text="a", usage={"input": 2048, "output": 2}, times=2),),
        cut_prompt_is_said,
    ),
    Pitfall(
        (52,),
        "llm_provider-retry-after",
        (Turn(fault="429_no_hint", headers={"llm_provider-retry-after": "40"}),),
        hint_is(40),
    ),
    Pitfall(
        (53,),
        "no hint: one request, then the caller's own backoff",
        (Turn(fault="429_no_hint", times=-1),),
        fails_as("throttled", 1),
        ANTHROPIC,
    ),
    Pitfall(
        (53, 54),
        "a wait in the message",
        (Turn(fault="429_message", message="No deployments available. Try again in 45 seconds."),),
        hint_is(45),
        ANTHROPIC,
    ),
    Pitfall((55,), "the format decides the path", (GOOD,), format_decides_the_path, ANTHROPIC),
    *(
        Pitfall((56,), f"Retry-After {value}", (Turn(fault="429_no_hint", retry_after=value),), hint_is(90))
        for value in ("90", "@imf+90", "@rfc850+90", "@asctime+90", "@zone+90")
    ),
    Pitfall(
        (57,),
        "a plan that is spent, with its reset in a message",
        (Turn(fault="glm_1308"),),
        quota_until(lambda: datetime(2099, 1, 1, 19, 4, 5, tzinfo=UTC)),
    ),
    Pitfall((58,), "1302 is too much at once", (Turn(fault="glm_1302", times=-1),), fails_as("throttled", 1)),
    Pitfall((58,), "1305 is overload", (Turn(fault="glm_1305", times=-1),), fails_as("overloaded", 4)),
    Pitfall((59,), "the base URL of the coding plan is named", (), base_url_of_the_coding_plan_is_named),
    Pitfall(
        (60,),
        "thinking goes only where it came from",
        (Turn(text="a", thinking="Hm, well.", signature="A+/b=="), GOOD),
        thinking_goes_only_where_it_came_from,
        ANTHROPIC,
    ),
    Pitfall((61,), "thought signatures come back", (Turn(frames=GEMINI), GOOD), thought_signature_comes_back),
    Pitfall((61,), "thought signatures go to nobody else", (GOOD,), thought_signature_goes_to_nobody_else),
    Pitfall((62,), "open calls are answered", (GOOD,), open_calls_are_answered),
    Pitfall(
        (63,),
        "usage_limit_reached is not retried",
        (Turn(fault="quota"),),
        quota_until(lambda: datetime.now(UTC) + timedelta(hours=1)),
    ),
    Pitfall(
        (63,),
        "the reset of ChatGPT plans in headers",
        (
            Turn(
                status=429,
                body={"error": {"type": "usage_limit_reached"}},
                headers={
                    "x-codex-primary-used-percent": "100.0",
                    "x-codex-primary-reset-after-seconds": "7200",
                    "x-codex-secondary-used-percent": "40",
                    "x-codex-secondary-reset-after-seconds": "90000",
                },
            ),
        ),
        quota_until(lambda: datetime.now(UTC) + timedelta(hours=2)),
    ),
]


@pytest.mark.parametrize(
    "pitfall", [pytest.param(one, id=f"{'+'.join(map(str, one.rows))}: {one.behaviour}") for one in PITFALLS]
)
def test_an_endpoint_that_departs_from_its_format_is_read_rightly(serve: Any, pitfall: Pitfall):
    pitfall.check(serve(*pitfall.script, **pitfall.entry))


def test_every_pitfall_in_this_range_has_a_case():
    assert {row for pitfall in PITFALLS for row in pitfall.rows} == set(range(30, 64))
