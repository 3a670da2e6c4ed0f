"""The loop: what ends a run, what the model is told, and what is counted."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_model import ENDPOINT, ScriptedModel, Step, calls, says

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.prompt import NOTE_MARK
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.messages import Reply, Text, Thinking, ToolUse
from delegation.errors import Cancelled, EndpointError
from delegation.receipt import Cost, Usage
from delegation.request import Endpoint, Limits

READ = ("read_file", {"path": "a.py"})


@pytest.fixture
def a_py(root: Path) -> Path:
    (root / "a.py").write_text("x = 1\n")
    return root / "a.py"


class Runs:
    """Runs an agent on a script; keeps the model, the reports and the log."""

    def __init__(self, toolbox: Toolbox, place: Path, cancelled: threading.Event) -> None:
        self.toolbox = toolbox
        self.trajectory = Trajectory(place / "trajectory.jsonl")
        self.cancelled = cancelled
        self.reports: list[TurnReport] = []
        self.model = ScriptedModel([])

    def __call__(
        self, steps: Sequence[Step], *, again: bool = False, endpoint: Endpoint = ENDPOINT, **more: Any
    ) -> AgentResult:
        self.model = ScriptedModel(steps, endpoint, again)
        limits = {"max_turns": 60, "timeout_seconds": 600, "max_tokens": 4096, "budget_usd": None}
        limits.update({name: more.pop(name) for name in list(more) if name in limits})
        facts = {"expects": "change", "on_turn": self.reports.append, "task": "Fix a.py.", **more}
        return run_agent(
            model=self.model,
            agent=find_agent(None, self.toolbox.root, self.toolbox.root / "none"),
            toolbox=self.toolbox,
            limits=Limits(**limits),
            trajectory=self.trajectory,
            cancelled=self.cancelled,
            **facts,
        )


@pytest.fixture
def run(toolbox: Toolbox, tmp_path: Path, cancelled: threading.Event) -> Runs:
    return Runs(toolbox, tmp_path, cancelled)


# the ordinary course


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


# malformed and cut calls


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


# the last word


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


# bounds


def test_the_turn_limit_ends_the_run_and_what_was_done_stays(run: Runs, root: Path):
    steps = [calls(("write_file", {"path": f"f{number}", "content": "x"})) for number in range(9)]
    result = run(steps, max_turns=4)
    assert (result.stop_reason, result.failure and result.failure.kind, result.turns) == ("turn_limit", "turn_limit", 4)
    assert len(list(root.iterdir())) == 4


def test_the_last_turns_are_counted_down_in_neutral_words(run: Runs):
    steps = [calls(("write_file", {"path": f"f{number}", "content": "x"})) for number in range(14)]
    run([*steps, says("done")], max_turns=15)
    told = [asked.last_text.split(NOTE_MARK)[1:] for asked in run.model.asked]
    assert told[:10] == [[]] * 10
    assert told[11] == [" 4 of 15 turns are left, the final message included."]
    assert told[14] == [" This is the last turn, the final message included."]
    assert not any(word in str(told).lower() for word in ("git", "commit", "must", "stage"))


def test_the_time_limit_counts_from_the_start_of_the_work(run: Runs):
    started = time.monotonic()
    result = run([calls(("run_bash", {"command": "sleep 30"}))], timeout_seconds=1)
    assert (result.stop_reason, result.failure and result.failure.kind) == ("time_limit", "time_limit")
    assert time.monotonic() - started < 10


def test_little_time_left_is_said_once(run: Runs):
    slow = calls(("run_bash", {"command": "sleep 2.3; date +%N"}))
    run([slow, calls(("list_files", {})), says("done")], timeout_seconds=3)
    told = [note for asked in run.model.asked for note in asked.last_text.split(NOTE_MARK)[1:]]
    assert len(told) <= 1
    assert all("1 seconds of time are left" in note for note in told)
    assert kinds(run) == ["countdown"]


def test_an_endpoint_that_fails_because_time_is_over_is_the_time_limit(run: Runs):
    def late(asked: object) -> Reply:
        time.sleep(1.05)
        raise EndpointError("unreachable", "deadline")

    assert run([late], timeout_seconds=1).stop_reason == "time_limit"


def test_the_budget_stops_before_the_next_request(run: Runs, a_py: Path):
    result = run([calls(("run_bash", {"command": f"echo {n}"}), cost_usd=0.4) for n in range(9)], budget_usd=1.0)
    assert (result.stop_reason, result.turns, result.cost.kind) == ("budget", 3, "reported")
    assert result.cost.amount_usd == pytest.approx(1.2)


def test_an_endpoint_error_ends_the_run_with_itself(run: Runs, a_py: Path):
    error = EndpointError("throttled", "slow down", status=429, retry_after_seconds=7)
    result = run([calls(READ), error])
    assert result.failure is error
    assert (result.stop_reason, result.turns) == ("failed", 1)


def test_cancelling_stops_before_the_next_call(run: Runs, root: Path):
    def reply(asked: object) -> Reply:
        run.cancelled.set()
        return calls(("write_file", {"path": "f", "content": "x"}))

    result = run([reply])
    assert (result.stop_reason, result.failure) == ("cancelled", None)
    assert list(root.iterdir()) == []


def test_cancelling_during_a_request_is_not_a_failure(run: Runs):
    assert run([Cancelled("stop")]).stop_reason == "cancelled"


def test_cancelling_ends_a_running_command(run: Runs):
    timer = threading.Timer(0.5, run.cancelled.set)
    timer.start()
    started = time.monotonic()
    result = run([calls(("run_bash", {"command": "sleep 60"}))])
    timer.join()
    assert result.stop_reason == "cancelled"
    assert time.monotonic() - started < 15


# going in circles


def kinds(run: Runs) -> list[str]:
    return [event["reason"] for event in run.trajectory.events() if event["type"] == "note"]


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


# room


def conversation_size(messages: Sequence[Any]) -> int:
    return sum(
        len(getattr(block, "text", "") or str(getattr(block, "input", "")))
        for message in messages
        for block in message.blocks
    )


@pytest.fixture
def big(root: Path) -> None:
    (root / "big").write_text("".join(f"this is line number {number}\n" for number in range(1, 20_001)))


def page(number: int) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": "big", "offset": 500 * number + 1, "limit": 500}


@pytest.mark.usefixtures("big")
def test_a_long_run_stays_inside_a_context_of_32k_and_every_request_is_well_formed(run: Runs, a_py: Path):
    small = ENDPOINT.model_copy(update={"context_tokens": 32_000})
    steps: list[Step] = [calls(READ, ("list_files", {}), ("read_file", {"path": "none"}), usage=Usage(requests=1))]
    uncounted = Usage(requests=1)
    steps += [calls(page(n), usage=uncounted) for n in range(40)]
    result = run([*steps, says("done")], endpoint=small)
    assert result.stop_reason == "submitted"
    sizes = [conversation_size(asked.messages) for asked in run.model.asked]
    assert max(sizes) / 3.5 < 32_000 - 4096
    assert all(asked.messages[0].blocks[0] == Text("Fix a.py.") for asked in run.model.asked)
    assert "[dropped to save room: read_file 'big' lines 1-500 of 20000. Call the tool again" in str(
        run.model.asked[-1].messages
    )
    assert "number 20000" in run.model.asked[-1].last_text


@pytest.mark.usefixtures("big")
def test_a_request_the_endpoint_finds_too_long_is_trimmed_and_sent_once_more(run: Runs, root: Path):
    steps: list[Step] = [calls(page(n)) for n in range(12)]
    too_long = EndpointError("context_overflow", "too long")
    result = run([*steps, too_long, says("done")])
    assert result.stop_reason == "submitted"
    assert conversation_size(run.model.asked[-1].messages) < 0.7 * conversation_size(run.model.asked[-2].messages)


def test_what_never_fits_is_a_failure_of_its_own_kind(run: Runs):
    too_long = EndpointError("context_overflow", "too long")
    result = run([too_long, too_long])
    assert (result.failure and result.failure.kind, len(run.model.asked)) == ("context_overflow", 2)


def test_asking_again_for_what_was_dropped_is_not_repetition(run: Runs, root: Path):
    small = ENDPOINT.model_copy(update={"context_tokens": 16_000})
    for number in range(8):
        (root / f"f{number}").write_text(f"{number} is a line\n" * 450)
    rounds = [calls(("read_file", {"path": f"f{number}"})) for number in range(8)] * 3
    result = run([*rounds, says("done")], endpoint=small)
    assert result.stop_reason == "submitted"


def test_150_turns_end_in_bounded_time(run: Runs, record: Callable[[str], None]):
    steps = [calls(("write_file", {"path": "f", "content": "x" * 5000 + str(number)})) for number in range(149)]
    started = time.monotonic()
    result = run([*steps, says("done")], max_turns=150)
    assert (result.stop_reason, result.turns) == ("submitted", 150)
    record(f"150 turns in {time.monotonic() - started:.1f} s")


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str], None]:
    return lambda text: request.node.user_properties.append(("measured", text))
