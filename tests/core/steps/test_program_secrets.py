"""Secrets that a program gets of its user: it has them, and nothing that is kept of the run does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front

from delegation.harnesses.polling import kept_result
from delegation.masking import MASK
from delegation.request import DelegationRequest
from delegation.steps import make_worktree, work_by_harness
from tests.doubles.harness_jobs import program

KEY = "sk-of-the-users-own-1234567890"
TABLE = """[commands.fixer]
argv = ["{}"]
environment = {{ FIXER_KEY = "{}", FIXER_MODE = "gentle" }}
"""
Runs = Callable[..., DelegationRequest]


@pytest.fixture
def runs(front: Front, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """The step for this agent, in a worker that has none of the caller's variables."""

    def running(agent: str, **fields: Any) -> DelegationRequest:
        request = front.records.request(front.keep(agent=agent, **fields))
        assert request.order is not None
        for name in ("FIXER_KEY", "DSH_API_KEY", "HERDR_PANE"):
            monkeypatch.delenv(name, raising=False)
        work_by_harness(request, make_worktree(request), request.order)
        return request

    return running


def holding(folder: Path, value: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if value in path.read_text(encoding="utf-8", errors="replace")]


def test_a_key_that_stands_in_the_programs_own_table_reaches_it_and_no_record(runs: Runs, front: Front, tmp_path: Path):
    config = front.home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    tool = program(tmp_path, "fixer", '#!/bin/sh\necho "$FIXER_MODE ${#FIXER_KEY} $FIXER_KEY"\n')
    config.write_text(TABLE.format(tool, KEY), encoding="utf-8")
    request = runs("fixer")
    result = kept_result(front.records.folder(request.id))
    assert result is not None
    assert result.answer == f"gentle {len(KEY)} {MASK}"
    assert holding(front.records.folder(request.id), KEY) == []
    assert request.order is not None
    assert request.order.template is not None
    assert request.order.template.environment == {"FIXER_MODE": "gentle"}


def test_the_launcher_of_dsh_gets_the_terminal_of_the_session_that_asked(runs: Runs, front: Front, tmp_path: Path):
    """Another session started the worker, in another terminal."""
    models = tmp_path / "models.json"
    models.write_text('["m"]', encoding="utf-8")
    body = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in --out-dir) out="$2";; esac; shift 2; done
printf '{"status": "done", "rc": 0, "summary": "in %s with %s"}' "$HERDR_PANE" "$DSH_API_KEY" > "$out/result.json"
"""
    front.environ |= {"DELEGATE_DSH_LAUNCHER": str(program(tmp_path, "dsh-herdr.sh", body))}
    front.environ |= {"DELEGATE_DSH_MODELS_FILE": str(models), "HERDR_PANE": "pane-7", "DSH_API_KEY": KEY}
    request = runs("dsh", model="m")
    result = kept_result(front.records.folder(request.id))
    assert result is not None
    assert result.answer == f"in pane-7 with {MASK}"
    assert holding(front.records.folder(request.id), KEY) == []
