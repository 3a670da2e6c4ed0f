"""A run that was interrupted anywhere goes on from its log: nothing is done twice, nothing is forgotten."""

import json
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_model import ScriptedModel, Step, calls, says

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.messages import ToolUse
from delegation.errors import EndpointError, WorkFailed
from delegation.receipt import Usage
from delegation.request import Limits

ROOT = Path(__file__).parents[3]


def marks(root: Path) -> list[str]:
    return (root / "marks").read_text().split() if (root / "marks").exists() else []


def mark(number: int) -> Step:
    return calls(("run_bash", {"command": f"echo {number} >> marks"}))


@pytest.fixture
def go(
    toolbox: Toolbox, tmp_path: Path, cancelled: threading.Event
) -> Callable[..., tuple[AgentResult, ScriptedModel]]:
    def going(*steps: Step, max_turns: int = 60, trajectory: Trajectory | None = None, **more: Any):
        model = ScriptedModel(steps)
        facts = {"on_turn": lambda report: None, "task": "Make marks.", "expects": "change", **more}
        result = run_agent(
            model=model,
            agent=find_agent(None, toolbox.root, tmp_path),
            toolbox=toolbox,
            limits=Limits(max_turns=max_turns, timeout_seconds=60, max_tokens=1000),
            trajectory=trajectory or Trajectory(tmp_path / "log.jsonl"),
            cancelled=cancelled,
            **facts,
        )
        return result, model

    return going


def cut_log(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """The log as a crash would have left it: everything up to the first event that `keep` refuses."""
    lines = list[str]()
    for line in path.read_text().splitlines(keepends=True):
        if not keep(json.loads(line)):
            break
        lines.append(line)
    path.write_text("".join(lines))


def test_a_run_parked_by_a_cooldown_goes_on_with_counts_usage_and_conversation(go, root: Path):
    throttled = EndpointError("throttled", "later", status=429)
    first, _ = go(mark(1), mark(2), throttled)
    assert (first.stop_reason, first.turns) == ("failed", 2)
    second, model = go(mark(3), says("done"))
    assert (second.stop_reason, second.turns, second.tool_calls, second.resumed) == ("submitted", 4, 3, True)
    assert second.usage == Usage(input_tokens=400, output_tokens=40, requests=4)
    assert marks(root) == ["1", "2", "3"]
    assert len(model.asked[0].messages) == 5
    assert second.elapsed_seconds >= first.elapsed_seconds


def test_a_finished_run_gives_its_result_again_without_asking(go):
    first, _ = go(mark(1), says("done"))
    second, model = go()
    assert model.asked == []
    assert (second.stop_reason, second.claim, second.turns, second.usage) == ("submitted", "done", 2, first.usage)


def test_a_finished_run_goes_on_with_a_further_message(go, root: Path):
    go(mark(1), says("done"))
    result, model = go(mark(2), says("done too"), added="Make another mark.")
    assert model.asked[0].last_text == "Make another mark."
    assert (result.claim, result.turns, marks(root)) == ("done too", 4, ["1", "2"])


def test_more_turns_continue_a_run_that_had_too_few(go, root: Path):
    first, _ = go(mark(1), mark(2), max_turns=2)
    second, _ = go(mark(3), says("done"), max_turns=5)
    assert (first.stop_reason, second.stop_reason, second.turns) == ("turn_limit", "submitted", 4)
    assert marks(root) == ["1", "2", "3"]


def test_a_call_whose_result_was_lost_is_not_run_again_and_the_model_is_told(go, tmp_path: Path, root: Path):
    two = calls(("run_bash", {"command": "echo 1 >> marks"}), ("run_bash", {"command": "echo never >> marks"}))
    go(two, says("done"), tree=lambda: "before")
    cut_log(tmp_path / "log.jsonl", lambda event: event["type"] != "result")
    result, model = go(says("I looked."), tree=lambda: "after")
    lost, not_started = model.asked[0].results
    assert "its result was lost" in lost.text
    assert "not the same as before the call" in lost.text
    assert "not executed" in not_started.text
    assert (result.stop_reason, result.turns) == ("submitted", 2)
    assert marks(root) == ["1", "never"]  # from the first run; nothing was added by the second


def test_a_lost_call_without_effect_on_the_files_is_said_to_have_none(go, tmp_path: Path):
    go(mark(1), says("done"), tree=lambda: "same")
    cut_log(tmp_path / "log.jsonl", lambda event: event["type"] != "result")
    _, model = go(says("ok"), tree=lambda: "same")
    assert "are the same as before the call" in model.asked[0].results[0].text


def test_calls_that_had_not_begun_are_done_on_resume(go, tmp_path: Path, root: Path):
    go(mark(1), says("done"))
    cut_log(tmp_path / "log.jsonl", lambda event: event["type"] != "intent")
    (root / "marks").unlink()
    result, model = go(says("done"))
    assert marks(root) == ["1"]
    assert result.tool_calls == 1
    assert model.asked[0].results[0].text == "[exit code: 0]"


def test_a_reply_that_ended_the_run_just_before_a_crash_is_not_asked_for_again(go, tmp_path: Path):
    go(mark(1), says("done"))
    cut_log(tmp_path / "log.jsonl", lambda event: event["type"] != "end")
    result, model = go()
    assert model.asked == []
    assert (result.stop_reason, result.claim) == ("submitted", "done")


def test_files_that_changed_meanwhile_are_mentioned(go, tmp_path: Path):
    go(mark(1), EndpointError("throttled", "later"), tree=lambda: "left like this")
    _, model = go(says("ok"), tree=lambda: "found like that")
    assert "not as you left them" in model.asked[0].last_text.replace("\n", " ")
    assert [
        event["tree_changed"] for event in Trajectory(tmp_path / "log.jsonl").events() if event["type"] == "resume"
    ] == [True]


def test_a_torn_last_line_is_left_out_and_the_log_goes_on(go, tmp_path: Path):
    go(mark(1), EndpointError("throttled", "later"))
    path = tmp_path / "log.jsonl"
    with path.open("a") as file:
        file.write('{"seq": 99, "type": "rep')
    before = len(Trajectory(path).events())
    result, _ = go(says("done"))
    assert result.stop_reason == "submitted"
    events = Trajectory(path).events()
    assert len(events) == before + 4
    sequence = [event["seq"] for event in events]
    assert sequence == sorted(set(sequence))


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_wherever_the_log_ends_the_run_ends_with_every_mark_at_most_once(go, tmp_path: Path, root: Path, length: int):
    script = [
        mark(1),
        calls(("run_bash", {"command": "echo 2 >> marks"}), ("run_bash", {"command": "echo 3 >> marks"})),
    ]
    go(*script, says("done"))
    whole = (tmp_path / "log.jsonl").read_text().splitlines(keepends=True)
    for end in range(length, len(whole), 5):
        (tmp_path / "log.jsonl").write_text("".join(whole[:end]))
        done = [json.loads(line) for line in whole[:end]]
        ids = [event["id"] for event in done if event["type"] == "result"]
        (root / "marks").write_text("".join(f"{number} " for number, _ in enumerate(ids, 1)))
        turns = sum(event["type"] == "reply" for event in done)
        result, _ = go(*[*script, says("done")][turns:])
        assert result.stop_reason == "submitted"
        assert result.turns <= 4
        assert len(marks(root)) == len(set(marks(root)))


KILLED = """
import sys, threading, os, signal
from pathlib import Path
sys.path[:0] = [{repo!r}, {doubles!r}]
from delegation.agents.loop import run_agent
from delegation.agents.lookup import find_agent
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.process import Captured, Finished
from delegation.request import Limits
from scripted_model import ScriptedModel, calls, says

root = Path({root!r})
def bash(command, seconds):
    number = int(command)
    with (root / "marks").open("a") as file:
        file.write(f"{{number}}\\n")
    if number == {die_at}:
        os.kill(os.getpid(), signal.SIGKILL)
    nothing = Captured("", 0, truncated=False)
    return Finished(0, None, False, False, nothing, nothing, 0.0, 0)

def step(asked):
    turn = sum(message.role == "assistant" for message in asked.messages) + 1
    return says("done") if turn == 12 else calls(("run_bash", {{"command": str(turn)}}))

result = run_agent(
    model=ScriptedModel([step], again=True), agent=find_agent(None, root, root), task="t", toolbox=Toolbox(root, bash),
    limits=Limits(max_turns=20, timeout_seconds=60, max_tokens=1000), trajectory=Trajectory(Path({log!r})),
    expects="change", cancelled=threading.Event(), on_turn=lambda report: None,
)
print(result.stop_reason, result.turns, result.tool_calls)
"""


def test_an_agent_killed_in_its_seventh_turn_ends_with_twelve_turns_and_every_effect_once(root: Path, tmp_path: Path):
    def start(die_at: int) -> subprocess.CompletedProcess[str]:
        program = KILLED.format(
            repo=str(ROOT),
            doubles=str(ROOT / "tests" / "doubles"),
            root=str(root),
            log=str(tmp_path / "log.jsonl"),
            die_at=die_at,
        )
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
        )

    killed = start(die_at=7)
    assert killed.returncode == -signal.SIGKILL
    resumed = start(die_at=0)
    assert (resumed.stdout.strip(), resumed.stderr) == ("submitted 12 11", "")
    assert marks(root) == [str(number) for number in range(1, 12)]


def test_secrets_never_reach_the_log(go, tmp_path: Path):
    trajectory = Trajectory(tmp_path / "log.jsonl", secrets=["sk-very-secret", "short"])
    use = ToolUse("", "run_bash", {"command": "echo sk-very-secret\necho 'sk-very-\"secret'"})
    result, _ = go(calls(use), says("The key is sk-very-secret."), trajectory=trajectory)
    text = (tmp_path / "log.jsonl").read_text()
    assert "sk-very-secret" not in text
    assert text.count("[secret removed]") >= 3
    assert (result.claim, result.last_text) == ("The key is [secret removed].",) * 2


def test_a_large_result_is_stored_once_and_the_log_is_private(go, tmp_path: Path, root: Path):
    (root / "f").write_text("needle\n" + "x" * 40 + "\n")
    go(calls(("read_file", {"path": "f"})), calls(("list_files", {})), says("done"))
    path = tmp_path / "log.jsonl"
    assert path.read_text().count("needle") == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_event_is_on_disk_before_the_tool_runs(toolbox: Toolbox, tmp_path: Path, root: Path):
    seen = list[str]()

    def shell(command: str, seconds: float):
        seen.extend(json.loads(line)["type"] for line in (tmp_path / "log.jsonl").read_text().splitlines())
        raise WorkFailed("process", "no")

    run_agent(
        model=ScriptedModel([calls(("run_bash", {"command": "x"})), says("done")]),
        agent=find_agent(None, root, tmp_path),
        task="t",
        toolbox=Toolbox(root, shell),
        limits=Limits(max_turns=5, timeout_seconds=60, max_tokens=100),
        trajectory=Trajectory(tmp_path / "log.jsonl"),
        expects="change",
        cancelled=threading.Event(),
        on_turn=lambda report: None,
    )
    assert seen == ["header", "request", "reply", "intent"]


def test_a_log_that_cannot_be_written_ends_the_run_and_hides_nothing(go, tmp_path: Path, root: Path):
    reports = list[TurnReport]()
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(WorkFailed) as failure:
        go(mark(1), on_turn=reports.append)
    assert failure.value.kind == "storage"
    assert marks(root) == []


def test_a_log_that_fails_midway_is_a_storage_failure(go, tmp_path: Path, root: Path):
    def broken(report: TurnReport) -> None:
        (tmp_path / "log.jsonl").unlink()
        (tmp_path / "log.jsonl").mkdir()

    result, _ = go(mark(1), mark(2), on_turn=broken)
    assert (result.stop_reason, result.failure and result.failure.kind) == ("failed", "storage")
    assert marks(root) == ["1"]
