"""A run that goes in circles is warned and ended; work that only looks alike is left alone."""

from pathlib import Path

import pytest
from scripted_model import Step, calls, says

from delegation.chat.messages import Reply
from tests.core.agents.runs import READ, Runs, kinds


@pytest.mark.parametrize(
    "steps",
    [
        [calls(READ)],
        [calls(("edit_file", {"path": "a.py", "old_text": "nope", "new_text": "x"}))],
        [calls(("run_bash", {"command": "cat a.py"}))],
        [calls(READ), calls(("list_files", {}))],
        [calls(READ), calls(("list_files", {})), calls(("run_bash", {"command": "ls"}))],
    ],
    ids=["a read that succeeds", "an edit that fails", "a command", "two in alternation", "three in turn"],
)
def test_the_same_calls_with_the_same_results_are_warned_about_once_and_then_end_the_run(
    run: Runs, a_py: Path, steps: list[Reply]
):
    result = run([*steps * 12])
    assert (result.stop_reason, result.failure and result.failure.kind) == ("repetition", "repetition")
    assert result.turns <= 6 + len(steps)
    assert kinds(run) == ["repetition"]


def test_an_edit_and_its_undoing_for_ever_is_ended_too(run: Runs, a_py: Path):
    there = calls(("edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}))
    back = calls(("edit_file", {"path": "a.py", "old_text": "x = 2", "new_text": "x = 1"}))
    result = run([there, back] * 20)
    assert (result.stop_reason, result.turns) == ("repetition", 10)


def test_a_poll_whose_output_moves_is_work(run: Runs):
    poll = calls(("run_bash", {"command": "echo x >> t; wc -l < t"}))
    result = run([*[poll] * 12, says("done")])
    assert result.stop_reason == "submitted"
    assert kinds(run) == []


def test_testing_again_after_each_change_is_work_and_runs_each_time(run: Runs, a_py: Path):
    test = calls(("run_bash", {"command": "echo ran >> log; grep -q 'x = 9' a.py && echo pass || echo FAIL"}))
    steps: list[Step] = [test]
    for number in range(1, 9):
        steps += [
            calls(("edit_file", {"path": "a.py", "old_text": f"x = {number}", "new_text": f"x = {number + 1}"})),
            test,
            calls(READ),
        ]
    result = run([*steps, says("green")])
    assert (result.stop_reason, result.last_bash_exit) == ("submitted", 0)
    assert a_py.with_name("log").read_text() == "ran\n" * 9
    assert "pass" in str([block for message in run.model.asked[-1].messages for block in message.blocks])
    assert kinds(run) == []
