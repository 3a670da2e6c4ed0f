"""In place: an agent's shell cannot leave settings or hooks behind that git would run for the user."""

import subprocess
from pathlib import Path

import pytest
from front import Front

from delegation import steps
from delegation.confinement import find_confiner
from delegation.receipt import Receipt
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn

ATTACK = "git config core.fsmonitor 'touch ran; false'; echo 'touch ran' > .git/hooks/post-commit; echo x > note.txt"


def work_in_place(stacked: Front, confinement: str) -> Receipt:
    turns = (Turn(calls=(Call("run_bash", {"command": ATTACK}),)), Turn(text="Done."))
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 1)]) as endpoint:
        stacked.environ["DELEGATE_LOCAL_URL"] = f"{endpoint.base_url}/chat/completions"
        stacked.environ["DELEGATE_LOCAL_MODEL"] = "openai-scripted"
        card = stacked.card("Do it", isolation="in_place", confinement=confinement)
        request = stacked.records.request(stacked.service().submit(card).id)
        tree = steps.make_worktree(request)
        steps.work(request, tree)
        return steps.record(request, steps.collect(request, tree), None, None)


def settings_of(repo: Path) -> tuple[bytes, list[str]]:
    return (repo / ".git" / "config").read_bytes(), sorted(path.name for path in (repo / ".git" / "hooks").iterdir())


@pytest.mark.parametrize("confinement", ["off", "required"])
def test_git_settings_and_hooks_are_as_before_and_what_was_tried_is_told(stacked: Front, confinement: str):
    if confinement == "required" and find_confiner("auto") is None:
        pytest.skip("nothing confines here")
    (stacked.repo / ".git" / "hooks").mkdir(exist_ok=True)
    before = settings_of(stacked.repo)
    receipt = work_in_place(stacked, confinement)
    assert settings_of(stacked.repo) == before
    assert (stacked.repo / "note.txt").read_text() == "x\n"
    subprocess.run(["git", "status"], cwd=stacked.repo, check=True, capture_output=True)
    assert not (stacked.repo / "ran").exists()
    told = [warning for warning in receipt.warnings if "were put back" in warning]
    assert len(told) == (confinement == "off")
    assert not told or {"config", "hooks/post-commit"} <= {word.strip() for word in told[0].replace(":", " ").split()}
