"""A program of the user's through the steps: what its silence comes to, and what is shown of it afterwards."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front, Ran

from delegation.errors import WorkFailed
from delegation.receipt import Receipt
from delegation.steps import collect, make_worktree, record, work_by_harness
from tests.doubles.harness_jobs import program

Call = Callable[..., Ran]
Done = Callable[..., Receipt]


@pytest.fixture
def done(front: Front, tmp_path: Path) -> Done:
    """Runs the steps but the verdict with a program of these shell lines."""

    def doing(body: str, **fields: Any) -> Receipt:
        fixer = program(tmp_path, "fix-it", f"#!/bin/sh\n{body}\n")
        (front.home / "config").mkdir(parents=True, exist_ok=True)
        config = front.home / "config" / "delegate.toml"
        config.write_text(f'[commands.fixer]\nargv = ["{fixer}"]\n', encoding="utf-8")
        request = front.records.request(front.keep(agent="fixer", **fields))
        assert request.order is not None
        worktree, failure = make_worktree(request), None
        try:
            work_by_harness(request, worktree, request.order)
        except WorkFailed as error:
            failure = error
        patch = collect(request, worktree) if request.card.expects == "change" else None
        return record(request, patch, None, failure)

    return doing


def test_a_program_that_changes_files_and_is_silent_is_judged_by_its_change(done: Done):
    receipt = done("echo '# fixed' >> calc.py")
    assert (receipt.outcome, receipt.failure_message, receipt.patch is not None) == ("unverified", None, True)


def test_one_that_is_silent_and_changes_nothing_has_changed_nothing(done: Done):
    assert done("exit 0").outcome == "no_change"


def test_one_that_is_asked_and_silent_has_failed(done: Done):
    receipt = done("exit 0", expects="answer")
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "empty_answer")
    assert (receipt.failure_message or "").startswith("fixer: ")


def test_the_log_is_named_where_a_transcript_is_asked_for(done: Done, front: Front, call: Call):
    receipt = done("echo Fixed it.; echo '# fixed' >> calc.py")
    log = front.records.folder(receipt.id) / "harness.log"
    told = call("transcript", receipt.id).stderr
    assert "a command-line agent leaves no transcript of turns" in told
    assert repr(str(log)) in told


def test_one_that_printed_nothing_is_said_to_have(done: Done, front: Front, call: Call):
    receipt = done("exit 0")
    assert "and this one printed nothing" in call("transcript", receipt.id).stderr


def test_after_a_failure_its_log_is_shown_and_no_transcript(done: Done, front: Front, call: Call):
    receipt = done("echo broken; exit 3")
    shown = call("show", receipt.id).stdout
    assert f"it printed: {front.records.folder(receipt.id) / 'harness.log'}" in shown
    assert "delegate transcript" not in shown


def test_what_it_said_is_shown_once_and_no_turns_are_counted(done: Done, call: Call):
    receipt = done("echo Fixed it.; echo '# fixed' >> calc.py")
    shown = call("show", receipt.id).stdout
    assert shown.count("Fixed it.") == 1
    assert "turns" not in shown


def test_a_folder_without_git_has_no_branch(done: Done, front: Front, tmp_path: Path):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("one\n", encoding="utf-8")
    front.repo = plain
    receipt = done("echo two >> a.txt; echo Done.")
    assert (receipt.outcome, receipt.branch) == ("unverified", None)
    assert receipt.patch is not None


def test_a_submission_names_the_program_and_no_endpoint(stacked: Front, call: Call, tmp_path: Path):
    fixer = program(tmp_path, "fix-it", "#!/bin/sh\n")
    (stacked.home / "config").mkdir(parents=True, exist_ok=True)
    config = stacked.home / "config" / "delegate.toml"
    config.write_text(f'[commands.fixer]\nargv = ["{fixer}"]\n', encoding="utf-8")
    said = call("run", "Fix it", "--agent", "fixer", "--no-wait").stderr
    assert f"agent 'fixer' is the program {str(fixer)!r}" in said
    assert "cli:" not in said


def test_programs_are_among_the_agents(front: Front, call: Call):
    (front.home / "config").mkdir(parents=True, exist_ok=True)
    config = front.home / "config" / "delegate.toml"
    config.write_text('[commands.fixer]\nargv = ["fix-it"]\n', encoding="utf-8")
    shown = call("agents").stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("fixer")]
    assert "the program 'fix-it'" in line
    assert "[commands.fixer]" in line
