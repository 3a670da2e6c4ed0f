"""run_bash: both ends of the output, the exit code last, and an answer within the time whatever the command does."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.toolbox import Toolbox
from delegation.chat.messages import ToolUse
from delegation.errors import WorkFailed
from delegation.process import Captured, Finished

Call = Callable[..., ToolAnswer]


def last_line(answer: ToolAnswer) -> str:
    return answer.text.split("\n")[-1]


def test_output_errors_and_exit_code_are_shown_in_this_order(call: Call):
    answer = call("run_bash", command="echo out; echo err >&2; exit 3")
    assert answer.text == "out\n[standard error]\nerr\n[exit code: 3]"
    assert (answer.is_error, answer.ran_command, answer.exit_code) == (False, True, 3)


def test_a_flood_keeps_both_ends_and_the_exit_code(call: Call):
    answer = call("run_bash", command="for i in $(seq 5000); do echo line $i; done; echo FAILED the last >&2; exit 1")
    assert answer.text.startswith("line 1\n")
    assert "line 5000\n" in answer.text
    assert "FAILED the last" in answer.text
    assert "characters left out" in answer.text
    assert "narrower" in answer.text
    assert last_line(answer) == "[exit code: 1]"
    assert len(answer.text) < 12_700


def test_the_caps_hold_for_a_shell_with_wider_limits(root: Path):
    flood = Captured("o" * 50_000 + "END", 50_003, truncated=False)
    toolbox = Toolbox(root, lambda command, seconds: Finished(0, None, False, False, flood, flood, 0.1, 0))
    answer = toolbox.call(ToolUse("id", "run_bash", {"command": "x"}), 60)
    assert 16_000 < len(answer.text) < 16_700
    assert answer.text.count("END") == 2
    assert last_line(answer) == "[exit code: 0]"


def test_an_endless_command_ends_at_its_timeout_with_what_it_printed(call: Call):
    started = time.monotonic()
    answer = call("run_bash", command="echo begun; sleep 100", timeout_seconds=1)
    assert time.monotonic() - started < 10
    assert answer.text.startswith("begun\n")
    assert last_line(answer) == "[no exit code: stopped after 1 s with everything it had started]"
    assert answer.exit_code is None


def test_a_background_child_does_not_hold_the_call(call: Call):
    started = time.monotonic()
    answer = call("run_bash", command="sleep 300 & echo started")
    assert time.monotonic() - started < 5
    assert answer.text == "started\n[background processes left: 1, ended]\n[exit code: 0]"


@pytest.mark.parametrize("command", ["cat", "python3", "read -p 'Sure? ' a", "read a </dev/tty"])
def test_a_command_that_reads_input_gets_none_and_ends(call: Call, command: str):
    started = time.monotonic()
    call("run_bash", command=command)
    assert time.monotonic() - started < 5


def test_odd_bytes_and_escapes_become_plain_text(call: Call):
    answer = call("run_bash", command=r"printf 'a\0b \360 \033[31mred\033[0m \033]0;title\007 1%%\r100%%\n'")
    answer.text.encode("utf-8")
    assert "\x1b" not in answer.text
    assert "\0" not in answer.text
    assert "100%" in answer.text


def test_a_killed_command_says_by_what(call: Call):
    answer = call("run_bash", command="kill -9 $$")
    assert answer.text == "[ended by SIGKILL]\n[exit code: 137]"


def test_a_command_that_was_filling_the_disk_says_so_instead_of_an_exit_code(root: Path):
    shown = Captured("begun\n", 6, truncated=False)
    ended = Finished(None, None, False, False, shown, Captured("", 0, truncated=False), 0.1, 1, disk_full=True)
    answer = Toolbox(root, lambda command, seconds: ended).call(ToolUse("id", "run_bash", {"command": "yes > f"}), 60)
    assert answer.text == "begun\n[no exit code: stopped because the disk was almost full]"
    assert answer.exit_code is None


def test_the_default_time_is_the_callers_and_never_more_than_what_is_left(root: Path):
    given = list[float]()

    def shell(command: str, seconds: float) -> Finished:
        given.append(seconds)
        nothing = Captured("", 0, truncated=False)
        return Finished(0, None, False, False, nothing, nothing, 0.1, 0)

    toolbox = Toolbox(root, shell, bash_timeout_seconds=120)
    for arguments, left in [({}, 999), ({"timeout_seconds": 1800}, 5000), ({"timeout_seconds": 900}, 30)]:
        toolbox.call(ToolUse("id", "run_bash", {"command": "x", **arguments}), left)
    assert given == [120, 1800, 30]


def test_a_shell_that_cannot_start_is_an_answer_but_missing_walls_end_the_run(root: Path):
    def broken(kind: str):
        def shell(command: str, seconds: float) -> Finished:
            raise WorkFailed(kind, "no")  # type: ignore[arg-type]

        return Toolbox(root, shell)

    use = ToolUse("id", "run_bash", {"command": "x"})
    assert broken("process").call(use, 60).is_error
    with pytest.raises(WorkFailed):
        broken("confinement").call(use, 60)
