"""A user with a repository, three models of a catalogue, the shared tables and a card to compare them on; no stack."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.card import Card
from delegation.comparison.plan import Comparison
from delegation.comparison.planning import plan_of
from delegation.comparison.store import ComparisonStore
from delegation.comparison.trials import Trials
from delegation.receipt import Cost, PatchSummary, Receipt, Timings
from delegation.records import Progress
from delegation.settings import Settings, load_settings
from delegation.shared_state import SharedState

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MODELS = """
[models.a]
base_url = "http://127.0.0.1:9/v1"
model = "a-1"
key = "env:KEY_OF_A"
chain = ["b"]

[models.b]
base_url = "http://127.0.0.1:9/v1"
model = "b-1"

[models.local-c]
base_url = "http://127.0.0.1:10/v1"
model = "c-1"
upstream_local = true
"""


@dataclass
class Bench:
    """One comparison in the core alone: planned, entered, and its trials ended as a test wants."""

    repo: Path
    environ: dict[str, str]
    state: SharedState

    @property
    def settings(self) -> Settings:
        return load_settings(self.environ, self.repo)

    @property
    def store(self) -> ComparisonStore:
        return ComparisonStore(self.settings.home)

    def card(self, task: str = "Fix it", **fields: Any) -> Card:
        return Card.model_validate({"task": task, "repo": str(self.repo), "verify": "pytest -q", **fields})

    def plan(self, *models: str, card: Card | None = None, **given: Any) -> Comparison:
        names = models or ("a", "b", "local-c")
        return plan_of(card or self.card(), names, self.settings, now=given.pop("now", NOW), **given)

    def open(self, comparison: Comparison) -> Trials:
        """Written down, and as whoever takes it up finds it."""
        created = self.store.create(comparison)
        return Trials(self.store.read(created.id), self.settings)

    def begun(self, *models: str, **given: Any) -> Trials:
        """All trials at once."""
        trials = self.open(self.plan(*models, in_flight=200, **given))
        for trial in trials.next():
            trials.enter(self.state, trial)
        return trials

    def end(self, trials: Trials, model: str, repeat: int, outcome: str, **fields: Any) -> Receipt:
        """Give one trial its receipt, as the flow would."""
        found = next(each for each in trials.comparison.trials if (each.model, each.repeat) == (model, repeat))
        request = trials.records.request(found.delegation_id)
        cost = fields.pop("cost", Cost(amount_usd=None, kind="unknown"))
        seconds = {name: fields.pop(name, None) for name in ("queued_seconds", "agent_seconds")}
        patch = PatchSummary(path="/x", files=1, insertions=2, deletions=1, sha256="0" * 64)
        receipt = Receipt.model_validate(
            {
                "id": request.id, "outcome": outcome, "expects": request.card.expects, "agent": "coder",
                "agent_source": "built-in", "model_requested": model, "model_used": request.endpoint.alias,
                "bucket": request.endpoint.bucket, "lane": request.endpoint.lane, "repo": request.repo,
                "base_commit": request.base_commit, "created_at": request.created_at, "ended_at": datetime.now(UTC),
                "timings": Timings(**seconds), "patch": patch if outcome in ("verified", "refuted") else None,
                "failure_kind": fields.pop("failure_kind", "process") if outcome == "failed" else None,
                "parent_id": request.parent_id, "turns": 2, "cost": cost, "costs": (cost,), **fields,
            }
        )  # fmt: skip
        trials.records.write_receipt(receipt)
        trials.records.write_status(request.id, Progress(step="done", detail=None))
        return receipt


@pytest.fixture
def bench(tmp_path: Path, delegate_home: Path, migrated_tables: Path) -> Iterator[Bench]:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "calc.py").write_text("x = 1\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    config = delegate_home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text(MODELS, encoding="utf-8")
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DELEGATE_LOCAL")},
        "DELEGATE_DISCOVER": "0",
        "PATH": "/usr/bin:/bin",  # without the program: its path stands in the commands
        "KEY_OF_A": "sk-of-a",
    }
    with SharedState(f"sqlite:///{shutil.copy(migrated_tables, tmp_path / 'shared.db')}") as state:
        yield Bench(repo, environ, state)
