"""A user with a repository, a default model and the shared tables, and a folder of cards; no stack."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.night.shift import Shift, open_shift
from delegation.night.terms import Terms
from delegation.night.values import Decision, Start
from delegation.receipt import Cost, PatchSummary, Receipt, Timings, Usage
from delegation.settings import load_settings
from delegation.shared_state import SharedState

BEGUN = datetime(2026, 5, 1, 1, 0, tzinfo=UTC)


@dataclass
class Table:
    """One night in the core alone: cards are written, opened as a shift, and ended as a test wants."""

    cards: Path
    repo: Path
    environ: dict[str, str]
    state: SharedState

    def write(self, **cards: str) -> None:
        """A Markdown card for each name, with the lines of its front matter."""
        for name, lines in cards.items():
            text = f"---\nrepo: {self.repo}\n{lines}\n---\nDo {name}.\n"
            (self.cards / f"{name}.md").write_text(text, encoding="utf-8")

    def open(self, part: str = "part-1", **terms: Any) -> Shift:
        given = {"cards": str(self.cards), "time_zone": "UTC", **terms}
        return open_shift(Terms.model_validate(given), part, BEGUN, load_settings(self.environ, self.cards))

    def start(self, shift: Shift, decision: Decision) -> dict[str, str]:
        """Enter what is to begin; ids by card."""
        found: dict[str, str] = {}
        for start in decision.start:
            entered = shift.enter(self.state, Start(start.job, start.number))
            if entered is not None:
                found[start.job] = entered.request.id
        return found


def receipt_of(shift: Shift, delegation_id: str, outcome: str, **fields: Any) -> Receipt:
    request = shift.records.request(delegation_id)
    patch = PatchSummary(path="/x", files=1, insertions=2, deletions=1, sha256="0" * 64)
    given = {
        "id": delegation_id, "outcome": outcome, "expects": request.card.expects, "agent": "coder",
        "agent_source": "built-in", "model_requested": None, "model_used": request.endpoint.alias,
        "bucket": request.endpoint.bucket, "lane": request.endpoint.lane, "repo": request.repo,
        "base_commit": request.base_commit, "created_at": request.created_at, "timings": Timings(total_seconds=75.0),
        "patch": patch if outcome in ("verified", "refuted") else None,
        "failure_kind": "process" if outcome == "failed" else None,
        "branch": f"delegate/{delegation_id}" if outcome in ("verified", "refuted") else None,
        "cost": Cost(amount_usd=0.25, kind="reported"), "turns": 2, "usage": Usage(requests=2),
    }  # fmt: skip
    return Receipt.model_validate({**given, **fields})


@pytest.fixture
def end() -> Callable[..., Receipt]:
    def written(shift: Shift, delegation_id: str, outcome: str = "verified", **fields: Any) -> Receipt:
        receipt = receipt_of(shift, delegation_id, outcome, **fields)
        shift.records.write_receipt(receipt)
        return receipt

    return written


@pytest.fixture
def table(tmp_path: Path, delegate_home: Path, migrated_tables: Path) -> Iterator[Table]:
    repo, cards = tmp_path / "repo", tmp_path / "cards"
    repo.mkdir()
    cards.mkdir()
    (repo / "calc.py").write_text("x = 1\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DELEGATE_LOCAL")},
        "DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1/chat/completions",
        "DELEGATE_LOCAL_KEY": "sk-test",
        "DELEGATE_LOCAL_MODEL": "local-scripted",
        "DELEGATE_DISCOVER": "0",
    }
    with SharedState(f"sqlite:///{shutil.copy(migrated_tables, tmp_path / 'shared.db')}") as state:
        yield Table(cards, repo, environ, state)
