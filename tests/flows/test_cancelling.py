"""Cancelling while a large change is being collected, on the real stack: it ends soon and nothing is lost."""

import json
import time
from pathlib import Path

import pytest

from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, committed, local_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

FILES = 12_000
MAKE = f"import os; [open(f'd{{n % 100}}/f{{n}}', 'w').write(str(n)) for n in range({FILES})]"


@pytest.mark.slow
def test_cancelling_during_a_large_collect_ends_soon_and_keeps_every_file(stack: Terminal, tmp_path: Path):
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a").write_text("a\n")
    committed(repo)
    command = f'mkdir -p $(seq -f d%g 0 99) && python3 -S -c "{MAKE}"'
    turns = [Turn(calls=(Call("run_bash", {"command": command}),)), Turn(text="Made them.")]
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 1)]) as endpoint:
        env = local_model(endpoint.base_url)
        started = stack("run", "Make many files", "--repo", str(repo), "--no-wait", "--json", env=env)
        assert started.code == 0, started.stderr
        delegation_id = started.json["id"]
        record = stack.home / "delegations" / delegation_id
        wait_for_step(record / "status.json", "collect")
        before = time.monotonic()
        assert stack("cancel", delegation_id).code == 0
        receipt = stack("wait", delegation_id, "--json").json
        seconds = time.monotonic() - before
    assert receipt["outcome"] == "cancelled"
    assert seconds < 40, "the two terminal commands and their own start included"
    restored = tmp_path / "restored"
    done = stack("worktrees", "restore", delegation_id, "--to", str(restored))
    assert done.code == 0, done.stderr
    assert sum(1 for _ in restored.glob("d*/f*")) == FILES


def wait_for_step(status: Path, step: str) -> None:
    end = time.monotonic() + 200
    while json.loads(status.read_text())["step"] != step:
        assert time.monotonic() < end, status.read_text()
        time.sleep(0.05)
