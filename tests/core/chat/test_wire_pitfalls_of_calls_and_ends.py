"""Tool calls and ends of answers that depart from the format, by their number in the project's list: 1 to 29."""

from typing import Any

import pytest

from delegation.scripted.endpoint import Call, Turn
from tests.core.chat.pitfalls import (
    GOOD,
    LS,
    PWD,
    TWO,
    Pitfall,
    arguments_go_back_as,
    call_has_problem,
    calls_are,
    chat_frames,
    everything_was_cut,
    fails_as,
    made_up_id_is_used_twice,
    nothing_is_repeated_after_shown_text,
    piece,
    text_is,
)

ANTHROPIC = {"wire": "anthropic_messages"}
RESPONSES = {"wire": "openai_responses"}
INTERLEAVED = chat_frames(
    piece('{"comm', index=0, id="a", name="run_bash"),
    piece('and": "ls"}', index=0),
    piece('{"command"', index=0, id="b", name="run_bash"),
    piece(': "pwd"}', index=0),
    finish="tool_calls",
)
WHOLE_CHUNKS = chat_frames(
    piece('{"command": "ls"}', index=0, id="a", name="run_bash"),
    piece('{"command": "pwd"}', index=0, id="b", name="run_bash"),
    finish="tool_calls",
)
NEITHER_ID_NOR_INDEX = chat_frames(
    piece("", name="run_bash"),
    piece('{"command":'),
    piece(' "ls"}'),
    piece('{"command": "pwd"}', name="run_bash"),
    finish="tool_calls",
)


PITFALLS = [
    Pitfall((1,), "every call has index 0", (Turn(calls=(LS, PWD), fault="index_collision"),), calls_are(*TWO)),
    Pitfall(
        (1,),
        "calls of different tools on index 0",
        (Turn(calls=(LS, Call("read_file", {"path": "a"})), fault="index_collision"),),
        calls_are(TWO[0], ("read_file", {"path": "a"})),
    ),
    Pitfall((2, 3), "a new id on a used index is a new call", (Turn(frames=INTERLEAVED),), calls_are(*TWO)),
    Pitfall((4,), "no index at all", (Turn(calls=(LS, PWD), fault="no_index"),), calls_are(*TWO)),
    Pitfall((4,), "neither id nor index", (Turn(frames=NEITHER_ID_NOR_INDEX),), calls_are(*TWO)),
    Pitfall((5,), "whole calls in chunks of one index", (Turn(frames=WHOLE_CHUNKS),), calls_are(*TWO)),
    Pitfall(
        (6,),
        "two objects in one text are two calls",
        (Turn(calls=(LS, PWD), fault="concatenated_args"),),
        calls_are(*TWO),
    ),
    Pitfall(
        (7,),
        "a missing id is made up and used for the result",
        (Turn(calls=(LS,), fault="missing_ids"), GOOD),
        made_up_id_is_used_twice,
    ),
    Pitfall((7, 1), "parallel calls without ids", (Turn(calls=(LS, PWD), fault="missing_ids"),), calls_are(*TWO)),
    Pitfall((8,), "a name that comes late", (Turn(calls=(LS, PWD), fault="late_name"),), calls_are(*TWO)),
    Pitfall((8,), "a name on every piece", (Turn(calls=(LS, PWD), fault="repeat_name"),), calls_are(*TWO)),
    Pitfall((8,), "no name is a malformed call", (Turn(calls=(LS,), fault="no_name"),), call_has_problem("no name")),
    Pitfall((9,), "arguments as an object", (Turn(calls=(LS, PWD), fault="dict_args"),), calls_are(*TWO)),
    Pitfall((10,), "empty arguments are none", (Turn(calls=(LS,), fault="empty_args"),), calls_are(("run_bash", {}))),
    Pitfall((10,), "null arguments are none", (Turn(calls=(LS,), fault="null_args"),), calls_are(("run_bash", {}))),
    Pitfall(
        (10,),
        "no input at all on a stream",
        (Turn(calls=(LS,), fault="empty_args"),),
        calls_are(("run_bash", {})),
        ANTHROPIC,
    ),
    Pitfall(
        (11,),
        "empty arguments go back as an object",
        (Turn(calls=(LS,), fault="empty_args"), GOOD),
        arguments_go_back_as("{}"),
    ),
    *(
        Pitfall(
            (12,),
            f"{raw} is no object",
            (Turn(calls=(Call("submit", raw=raw),)),),
            call_has_problem("must be a JSON object"),
        )
        for raw in ("null", "5", "[]", '"x"')
    ),
    *(
        Pitfall(
            (13,),
            f"{raw[:12]} is never resent",
            (Turn(calls=(Call("submit", raw=raw),)), GOOD),
            arguments_go_back_as("{}"),
        )
        for raw in ('{"path": a.py"}', "{'a': 1}", '{"a": 1,}', '{"a": NaN}')
    ),
    Pitfall(
        (14,),
        "refused arguments are retried once",
        (Turn(fault="500_tool_args", times=-1),),
        fails_as("bad_request", 2),
    ),
    Pitfall(
        (15,), "a new sample after refused arguments", (Turn(fault="500_tool_args"), GOOD), text_is("It is done.", 2)
    ),
    Pitfall(
        (16,),
        "cut arguments under finish tool_calls",
        (Turn(calls=(LS, PWD), fault="truncated_args"),),
        everything_was_cut,
    ),
    Pitfall(
        (16,),
        "cut arguments on a message stream",
        (Turn(calls=(LS, PWD), fault="truncated_args"),),
        everything_was_cut,
        ANTHROPIC,
    ),
    Pitfall((16,), "whole calls of a cut reply", (Turn(calls=(LS, PWD), fault="length"),), everything_was_cut),
    Pitfall((17,), "calls under finish stop", (Turn(calls=(LS, PWD), fault="finish_stop"),), calls_are(*TWO)),
    Pitfall((17,), "calls under end_turn", (Turn(calls=(LS, PWD), fault="finish_stop"),), calls_are(*TWO), ANTHROPIC),
    Pitfall(
        (18,),
        "null finish and [DONE] is an end",
        (Turn(text="It is done.", fault="null_finish"),),
        text_is("It is done."),
    ),
    Pitfall(
        (18,),
        "null finish and end of data is a cut",
        (Turn(text="It is", fault="no_terminal", times=-1),),
        fails_as("truncated", 2),
    ),
    Pitfall(
        (19,), "end of data is no success", (Turn(text="It", fault="no_terminal"), GOOD), text_is("It is done.", 2)
    ),
    Pitfall(
        (19,), "a cut connection is no success", (Turn(text="It is", fault="cut", times=-1),), fails_as("truncated", 2)
    ),
    Pitfall(
        (20,), "finish without [DONE] is an end", (Turn(text="It is done.", fault="no_done"),), text_is("It is done.")
    ),
    Pitfall(
        (20,), "neither is a failure", (Turn(text="It is", fault="cut_before_end", times=-1),), fails_as("truncated", 2)
    ),
    Pitfall(
        (21,),
        "no message_stop is a cut",
        (Turn(text="It is", fault="no_done", times=-1),),
        fails_as("truncated", 2),
        ANTHROPIC,
    ),
    Pitfall(
        (22,),
        "no terminal event is a cut",
        (Turn(text="It is", fault="no_terminal", times=-1),),
        fails_as("truncated", 2),
        RESPONSES,
    ),
    Pitfall(
        (22,),
        "response.incomplete is a cut reply",
        (Turn(calls=(LS, PWD), fault="length"),),
        everything_was_cut,
        RESPONSES,
    ),
    Pitfall(
        (23,),
        "an error event ends the wait",
        (Turn(text="It", fault="error_in_stream", times=-1),),
        fails_as("overloaded", 4),
        RESPONSES,
    ),
    Pitfall(
        (24,),
        "an error object in a 200",
        (Turn(fault="error_only", times=-1),),
        fails_as("overloaded", 4, "upstream failed"),
    ),
    Pitfall(
        (24,),
        "an error object in a 200 message stream",
        (Turn(fault="error_only", times=-1),),
        fails_as("overloaded", 4),
        ANTHROPIC,
    ),
    Pitfall(
        (24,),
        "a bad request inside a 200 is not retried",
        (Turn(text="a b c d", fault="error_bad_request", times=-1),),
        fails_as("bad_request", 1),
    ),
    Pitfall(
        (25,),
        "an error code that is a word",
        (Turn(text="It is", fault="error_string_code"), GOOD),
        text_is("It is done.", 2),
    ),
    Pitfall(
        (26,),
        "a call broken by an error is discarded",
        (Turn(calls=(PWD,), fault="error_after_call"), Turn(calls=(LS,))),
        calls_are(TWO[0], requests=2),
        ANTHROPIC,
    ),
    Pitfall(
        (27,), "529 is overload and passes", (Turn(fault="529", times=2), GOOD), text_is("It is done.", 3), ANTHROPIC
    ),
    Pitfall(
        (27,),
        "overload in a message of 500",
        (Turn(fault="500_overloaded", times=-1),),
        fails_as("overloaded", 4),
        ANTHROPIC,
    ),
    Pitfall(
        (28,),
        "overload in mid stream is retried",
        (Turn(text="a b c d e f", fault="error_in_stream"), GOOD),
        text_is("It is done.", 2),
        ANTHROPIC,
    ),
    Pitfall(
        (29,),
        "text that was shown is not asked for again",
        (Turn(text="It is done and more", fault="cut", times=-1),),
        nothing_is_repeated_after_shown_text,
    ),
]


@pytest.mark.parametrize(
    "pitfall", [pytest.param(one, id=f"{'+'.join(map(str, one.rows))}: {one.behaviour}") for one in PITFALLS]
)
def test_an_endpoint_that_departs_from_its_format_is_read_rightly(serve: Any, pitfall: Pitfall):
    pitfall.check(serve(*pitfall.script, **pitfall.entry))


def test_every_pitfall_in_this_range_has_a_case():
    assert {row for pitfall in PITFALLS for row in pitfall.rows} == set(range(1, 30))
