"""The loop: its ordinary course, what the model is told of calls that cannot be done, and its last word."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from scripted_model import calls, says

from delegation.agents.lookup import find_agent
from delegation.agents.prompt import system_prompt
from delegation.agents.results import AgentResult
from delegation.chat.messages import Reply, Text, Thinking, ToolUse
from delegation.errors import EndpointError
from delegation.receipt import Cost, Usage
from tests.core.agents.runs import READ, Runs


def test_a_model_that_edits_tests_and_reports_is_submitted(run: Runs, a_py: Path):
    result = run(
        [
            calls(READ, text="I look first."),
            calls(
                ("edit_file", {"path": "a.py", "old_text": "1", "new_text": "2"}), ("run_bash", {"command": "cat a.py"})
            ),
            says("Changed x to 2."),
        ]
    )
    assert a_py.read_text() == "x = 2\n"
    assert replace(result, elapsed_seconds=0.0) == AgentResult(
        stop_reason="submitted",
        failure=None,
        answer=None,
        claim="Changed x to 2.",
        turns=3,
        tool_calls=3,
        malformed_calls=0,
        nudges=0,
        last_bash_exit=0,
        bash_failures=0,
        usage=Usage(input_tokens=300, output_tokens=30, requests=3),
        cost=Cost(amount_usd=None, kind="unknown"),
        costs=(Cost(amount_usd=None, kind="unknown"),),
        response_model=None,
        last_text="Changed x to 2.",
    )
    assert [(report.turn, report.max_turns, report.tool_calls, report.last_tool) for report in run.reports] == [
        (1, 60, 1, "read_file"),
        (2, 60, 3, "run_bash"),
    ]
    assert [result.text for result in run.model.asked[2].results] == [
        "edited 'a.py': 1 replacement, at line 1",
        "x = 2\n[exit code: 0]",
    ]


def test_an_answer_is_the_final_text_and_not_a_claim(run: Runs, a_py: Path):
    result = run([calls(READ), says("x is 1")], expects="answer")
    assert (result.stop_reason, result.answer, result.claim) == ("answered", "x is 1", None)


def test_the_prompt_names_the_working_tree_and_the_date_and_nothing_about_git(run: Runs, root: Path):
    run([says("done")])
    system = run.model.asked[0].system
    assert f"Working folder: {root}" in system
    assert "Date: 20" in system
    assert "git add" not in system
    assert "commit" not in system


def test_the_prompts_of_one_agent_differ_only_in_their_last_line():
    agent = find_agent(None, Path("/nowhere"), Path("/nowhere"))
    one, other = (
        system_prompt(agent, workdir=folder, expects="change", tools=("read_file",), today=day)
        for folder, day in (("/trees/one", date(2026, 11, 30)), ("/trees/other", date(2026, 12, 1)))
    )
    assert one != other
    assert one.rpartition("\n")[0] == other.rpartition("\n")[0]


def test_a_failing_command_is_counted_and_does_not_end_the_run(run: Runs):
    result = run(
        [calls(("run_bash", {"command": "exit 7"})), calls(("run_bash", {"command": "false"})), says("All green.")]
    )
    assert (result.last_bash_exit, result.bash_failures, result.claim) == (1, 2, "All green.")


def test_thinking_goes_back_unchanged(run: Runs, a_py: Path):
    thought = Thinking("hm", "c2ln", "anthropic")
    first = Reply((thought, Text("I look."), ToolUse("t1", *READ)), "tool_use", Usage(requests=1))
    run([first, says("done")])
    assert run.model.asked[1].messages[1].blocks == first.blocks


def test_a_malformed_call_is_answered_and_the_run_goes_on(run: Runs, root: Path):
    bad = ToolUse("", "write_file", {}, raw="{'path': 1,}", problem="the arguments are not valid JSON")
    result = run([calls(bad), calls(("read_file", {"file": "x"})), says("done")])
    assert (result.stop_reason, result.malformed_calls, result.tool_calls) == ("submitted", 2, 2)
    assert "not valid JSON" in run.model.asked[1].last_text
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "use", [("write_file", {"path": "a.py", "content": "line1"}), ("write_file", {"path": "a.py"})]
)
def test_no_call_of_a_cut_reply_is_executed(run: Runs, a_py: Path, use: tuple[str, dict[str, str]]):
    result = run([calls(("run_bash", {"command": "touch made"}), use, stop="length"), says("done")])
    assert a_py.read_text() == "x = 1\n"
    assert not a_py.with_name("made").exists()
    assert [result.is_error for result in run.model.asked[1].results] == [True, True]
    assert "cut off at the output limit" in run.model.asked[1].results[0].text
    assert result.stop_reason == "submitted"
    assert [event["type"] for event in run.trajectory.events()].count("intent") == 0


def test_three_cut_replies_in_a_row_end_the_run(run: Runs):
    result = run([calls(("write_file", {"path": "a", "content": "x"}), stop="length")], again=True)
    assert (result.failure and result.failure.kind, result.turns) == ("truncated", 3)


def test_a_cut_text_is_asked_to_go_on(run: Runs):
    result = run([says("I have fo", stop="length"), says("I have found it.")], expects="answer")
    assert (result.answer, result.turns) == ("I have found it.", 2)


def test_ids_that_begin_anew_each_turn_are_kept_apart(run: Runs, a_py: Path):
    result = run([calls(ToolUse("call_0", *READ)), calls(ToolUse("call_0", "list_files", {})), says("done")])
    assert (result.stop_reason, result.tool_calls) == ("submitted", 2)


def test_an_announcement_without_a_call_is_asked_about_once(run: Runs, a_py: Path):
    result = run([says("I found it. I'll fix it now."), calls(READ), says("Done: fixed.")])
    assert "no tool was called" in run.model.asked[1].last_text
    assert (result.claim, result.nudges, result.nudge_reply) == ("Done: fixed.", 1, None)


def test_the_reply_to_the_question_never_replaces_the_real_text(run: Runs):
    long_report = "The report: everything is described here. Next, I will summarise."
    result = run([says(long_report), says("Nothing is left.")], expects="answer")
    assert (result.answer, result.nudge_reply, result.nudges) == (long_report, "Nothing is left.", 1)


def test_a_second_announcement_is_taken_as_it_is(run: Runs):
    result = run([says("Let me fix it:"), says("I will fix it now.")])
    assert (result.stop_reason, result.turns, result.claim) == ("submitted", 2, "Let me fix it:")


def test_a_plain_last_word_is_not_asked_about(run: Runs):
    result = run([says("It is fixed. Let me know if anything is unclear.")])
    assert (result.turns, result.nudges) == (1, 0)


@pytest.mark.parametrize("first", [says(""), says("\n "), Reply((Thinking("all done"),), "end", Usage(requests=1))])
def test_an_empty_last_word_is_asked_about_once_and_then_a_failure(run: Runs, a_py: Path, first: Reply):
    result = run([calls(READ), first, first])
    assert (result.stop_reason, result.failure and result.failure.kind, result.nudges) == ("failed", "empty_answer", 1)


def test_an_empty_answer_of_the_endpoint_is_asked_about_once_too(run: Runs, a_py: Path):
    empty = EndpointError("empty_answer", "nothing came")
    assert run([calls(READ), empty, says("done")]).stop_reason == "submitted"
    assert "was empty" in run.model.asked[-1].last_text
    run.trajectory.path.unlink()
    result = run([empty, empty])
    assert (result.failure, result.nudges) == (empty, 1)


def test_an_empty_reply_may_be_followed_by_work(run: Runs, a_py: Path):
    assert run([says(""), calls(READ), says("done")]).stop_reason == "submitted"


def test_a_refusal_is_a_failure(run: Runs):
    result = run([says("I cannot help with that.", stop="refusal")])
    assert (result.failure and result.failure.kind, result.claim) == ("refused", None)
