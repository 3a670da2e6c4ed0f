"""The agent step of a command-line agent, in this process: what it leaves in the record, and how it goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front

from delegation.checkout.git import git
from delegation.errors import WorkFailed
from delegation.harnesses import polling
from delegation.harnesses.codex_login import auth_stopped
from delegation.harnesses.polling import kept_result
from delegation.harnesses.result import HarnessResult
from delegation.masking import MASK
from delegation.receipt import Receipt, Usage
from delegation.request import DelegationRequest
from delegation.steps import collect, make_worktree, record, work_by_harness
from delegation.steps.record import worktree_of
from delegation.work import Work
from mcp_entry.verbs.program_jobs import job_of
from tests.doubles.codex import BEGUN, DONE, VERSION, told
from tests.doubles.harness_jobs import program

Works = Callable[..., tuple[DelegationRequest, Work]]
SECRET = 'tok-"quoted"-1234567890'
USED = {"type": "turn.completed", "usage": {"input_tokens": 19, "output_tokens": 5}}


@pytest.fixture
def works(front: Front, tmp_path: Path) -> Works:
    """Runs the step with a Codex of these shell lines; fields of the request may be changed."""

    def working(
        body: str, on_line: Callable[[str], None] = lambda _: None, **changed: Any
    ) -> tuple[DelegationRequest, Work]:
        script = program(tmp_path, "codex", f"#!/bin/sh\n{VERSION}\n{body}\n")
        front.environ |= {"DELEGATE_CODEX_BIN": str(script), "CODEX_HOME": str(tmp_path / "login")}
        request = front.records.request(front.keep(agent="codex")).model_copy(update=changed)
        assert request.order is not None
        return request, work_by_harness(request, make_worktree(request), request.order, on_line=on_line)

    return working


def message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}


def result_of(front: Front, request: DelegationRequest) -> HarnessResult:
    found = kept_result(front.records.folder(request.id))
    assert found is not None
    return found


def test_a_secret_that_the_program_prints_stands_nowhere_in_the_record(
    works: Works, front: Front, monkeypatch: pytest.MonkeyPatch
):
    """Plain on stderr, escaped in the JSON of its events, and cut into pieces by the pipe."""
    front.environ |= {"DELEGATE_ENV_PASSTHROUGH": "MY_TOKEN", "MY_TOKEN": SECRET}
    monkeypatch.setenv("DELEGATE_ENV_PASSTHROUGH", "MY_TOKEN")
    half = 'printf %s "$MY_TOKEN" | cut -c1-9 | tr -d "\\n" >&2'
    rest = 'printf "%s\\n" "$MY_TOKEN" | cut -c10- >&2'
    lines: list[str] = []
    body = f"cat > /dev/null; {half}; sleep 0.3; {rest}\n{told(*BEGUN, message(f'It is {SECRET}.'), DONE)}"
    request, work = works(body, on_line=lines.append)
    assert work.answer == f"It is {MASK}."
    folder = front.records.folder(request.id)
    log = (folder / "harness.log").read_text(encoding="utf-8")
    assert log.count(MASK) == 2
    assert [line for line in lines if MASK in line]
    kept = [path for path in folder.rglob("*") if path.is_file()]
    held = [path.name for path in kept if {SECRET, json.dumps(SECRET)[1:-1]} & {*_in(path)}]
    assert held == []
    assert (folder / "harness.log").stat().st_mode & 0o777 == 0o600


def _in(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return [value for value in (SECRET, json.dumps(SECRET)[1:-1]) if value in text]


def root_of(request: DelegationRequest) -> Path:
    tree = worktree_of(request.id)
    assert tree is not None
    return Path(tree.root)


def test_one_that_goes_on_resumes_the_thread_with_only_what_is_said_next(works: Works, front: Front):
    first, _ = works(f"cat > /dev/null\n{told(*BEGUN, message('First.'), DONE)}")
    more = f'echo "$@" > words; cat > said\n{told(*BEGUN, message("Second."), USED)}'
    second, work = works(more, parent_id=first.id, added="Now the docs.")
    root = root_of(second)
    assert " resume t-1 --json " in (root / "words").read_text(encoding="utf-8")
    said = (root / "said").read_text(encoding="utf-8")
    assert said.endswith("\n\nNow the docs.")
    assert str(root) in said
    assert "Fix it" not in said
    assert work.usage == Usage(input_tokens=12, output_tokens=2)  # of this run alone
    assert result_of(front, second).thread_usage == Usage(input_tokens=19, output_tokens=5)


@pytest.mark.parametrize("thread", ["--sandbox=danger-full-access", "t 1", "a\nb"])
def test_a_name_that_could_be_another_argument_is_no_thread(works: Works, front: Front, thread: str):
    begun = ({"type": "thread.started", "thread_id": thread}, {"type": "turn.started"})
    first, _ = works(f"cat > /dev/null\n{told(*begun, message('First.'), DONE)}")
    body = f'echo "$@" > words; cat > said\n{told(*BEGUN, message("Anew."), DONE)}'
    second, _ = works(body, parent_id=first.id, added="Now the docs.")
    assert "resume" not in (root_of(second) / "words").read_text(encoding="utf-8")
    assert "Fix it" in (root_of(second) / "said").read_text(encoding="utf-8")


def test_a_thread_that_is_gone_is_begun_anew_with_the_whole_task(works: Works, front: Front):
    first, _ = works(f"cat > /dev/null\n{told(*BEGUN, message('First.'), DONE)}")
    gone = 'case "$*" in *resume*) echo "Error: no rollout found for thread id t-1" >&2; exit 1;; esac'
    body = f"cat > said; {gone}\n{told(*BEGUN, message('Anew.'), DONE)}"
    second, work = works(body, parent_id=first.id, added="Now the docs.")
    assert work.answer == "Anew."
    assert "Fix it" in (root_of(second) / "said").read_text(encoding="utf-8")
    assert any("began anew" in warning for warning in result_of(front, second).warnings)


def test_without_an_earlier_thread_the_whole_task_is_given(works: Works, front: Front):
    never = front.keep(step=None)
    body = f'echo "$@" > words; cat > /dev/null\n{told(*BEGUN, message("x"), DONE)}'
    request, _ = works(body, parent_id=never, added="Go on.")
    assert "resume" not in (root_of(request) / "words").read_text(encoding="utf-8")


def test_a_result_that_cannot_be_written_down_undoes_no_work_and_is_told(
    works: Works, front: Front, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "/secret/place")

    monkeypatch.setattr("delegation.steps.program_result.keep_result", full)
    request, work = works(f"cat > /dev/null\n{told(*BEGUN, message('Done.'), DONE)}")
    assert polling.PERSIST_ERROR + "OSError [errno ENOSPC] No space left on device" in work.warnings
    record(request, None, None, None)
    assert job_of(front.service(), request.id)["persist_error"] == "OSError [errno ENOSPC] No space left on device"
    assert not any("/secret/place" in warning for warning in work.warnings)


def test_the_tokens_of_the_codex_login_which_its_commands_can_read_stand_nowhere_in_the_record(
    works: Works, front: Front, tmp_path: Path
):
    login = tmp_path / "login" / "auth.json"
    login.parent.mkdir()
    tokens = {
        "access_token": "at-0123456789-abcdefghij",
        "refresh_token": "rt-0123456789-abcdefghij",
        "account_id": "a",
    }
    login.write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": tokens}), encoding="utf-8")
    message_of_it = message(f"It has {tokens['refresh_token']}.")
    request, work = works(f"cat > /dev/null; cat {login} >&2; echo >&2\n{told(*BEGUN, message_of_it, DONE)}")
    assert work.answer == f"It has {MASK}."
    kept = [path for path in front.records.folder(request.id).rglob("*") if path.is_file()]
    held = [path.name for path in kept for value in tokens.values() if len(value) > 9 and value in path.read_text()]
    assert held == []
    assert (front.records.folder(request.id) / "harness.log").read_text(encoding="utf-8").count(MASK) == 3


@pytest.mark.parametrize(("meanwhile", "stopped"), [("true", False), ("false", True)])
def test_a_person_who_logs_in_while_the_earlier_login_is_being_refused_is_let_in_at_once(
    works: Works, front: Front, tmp_path: Path, meanwhile: str, stopped: bool
):
    login = tmp_path / "login" / "auth.json"
    login.parent.mkdir()
    login.write_text('{"tokens": {"access_token": "old"}}')
    refused = {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized"}}
    change = f'{meanwhile} && echo \'{{"tokens": {{"access_token": "new"}}}}\' > {login}'
    with pytest.raises(WorkFailed) as error:
        works(f"cat > /dev/null\n{change}\n{told(*BEGUN, refused)}\nexit 1")
    assert error.value.kind == "auth"
    assert auth_stopped(front.settings) is stopped


def test_what_was_used_before_by_a_run_that_told_no_usage_is_not_counted_again(works: Works, front: Front):
    first, _ = works(f"cat > /dev/null\n{told(*BEGUN, message('First.'), {'type': 'turn.completed'})}")
    second, work = works(f"cat > /dev/null\n{told(*BEGUN, message('Second.'), USED)}", parent_id=first.id, added="On.")
    assert work.usage == Usage()
    assert result_of(front, second).thread_usage == Usage(input_tokens=19, output_tokens=5)


@pytest.mark.parametrize(
    ("gone", "confinement", "left"),
    [
        ("rm -rf .git", "auto", "nothing changed"),
        ('rm -rf ./* ./.[!.]*; rm -rf "$PWD"', "auto", "every file deleted"),
        ('rm -rf "$PWD"', "off", "no tree"),
        ('cd /; rm -rf "$OLDPWD"/../*; rm -rf "$OLDPWD"', "off", "no tree"),
    ],
)
def test_a_program_that_removes_its_own_tree_comes_to_a_receipt_and_the_repository_stays(
    works: Works, front: Front, gone: str, confinement: str, left: str
):
    before = git("status", "--porcelain", cwd=front.repo), git("rev-parse", "HEAD", cwd=front.repo)
    body = f"cat > /dev/null; {gone}\n{told(*BEGUN, message('Gone.'), DONE)}"
    request, work = works(body, confinement=confinement)
    assert work.answer == "Gone."
    receipt = closed(request)
    assert (git("status", "--porcelain", cwd=front.repo), git("rev-parse", "HEAD", cwd=front.repo)) == before
    match left:
        case "nothing changed":
            assert (receipt.outcome, receipt.patch) == ("no_change", None)
        case "every file deleted":
            assert receipt.patch is not None
            assert (receipt.patch.insertions, receipt.patch.deletions > 0) == (0, True)
        case _:
            assert (receipt.outcome, receipt.failure_kind) == ("failed", "checkout")
            assert "is gone" in (receipt.failure_message or "")


def closed(request: DelegationRequest) -> Receipt:
    """What the flow does after the agent step."""
    tree = worktree_of(request.id)
    assert tree is not None
    try:
        return record(request, collect(request, tree), None, None)
    except WorkFailed as error:
        return record(request, None, None, error)


def test_a_program_that_is_gone_when_its_turn_comes_is_a_failure_that_names_its_variable(works: Works, tmp_path: Path):
    request, _ = works(f"cat > /dev/null\n{told(*BEGUN, message('Once.'), DONE)}")
    (tmp_path / "codex").unlink()
    assert request.order is not None
    tree = worktree_of(request.id)
    assert tree is not None
    with pytest.raises(WorkFailed, match="DELEGATE_CODEX_BIN") as error:
        work_by_harness(request, tree, request.order)
    assert error.value.kind == "process"


def test_a_program_that_failed_leaves_its_account_of_it(works: Works, front: Front):
    failed = {"type": "turn.failed", "error": {"message": "You have hit your usage limit."}}
    with pytest.raises(WorkFailed) as error:
        works(f"cat > /dev/null\n{told(*BEGUN, failed)}\nexit 1")
    assert error.value.kind == "quota"
