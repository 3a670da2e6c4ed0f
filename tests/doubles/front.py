"""One user's home, repository and program, for the tests of the front door."""

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect_double import PrefectDouble

from delegation.admission import admit
from delegation.card import Card
from delegation.ids import new_id
from delegation.receipt import Cost, PatchSummary, Receipt
from delegation.records import Progress, RecordStore
from delegation.settings import Settings, load_settings
from mcp_entry.verbs.service import Service

ROOT = Path(__file__).parents[2]
PATCH = b"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + x
+    return 2 * x
"""


@dataclass(frozen=True)
class Ran:
    """What one call of `delegate` came to."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Front:
    """One user's home, with what tests want to do to it."""

    home: Path
    repo: Path
    environ: dict[str, str]
    prefect: PrefectDouble | None = None
    said: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return load_settings(self.environ, self.repo)

    @property
    def records(self) -> RecordStore:
        return RecordStore(self.settings.home)

    def service(self) -> Service:
        return Service(self.settings, self.said.append)

    def card(self, task: str = "Fix the median of an even count", **fields: Any) -> Card:
        return Card(task=task, repo=str(self.repo), **fields)

    def delegate(self, *words: str, stdin: bytes = b"", timeout: float = 30, **environ: str) -> Ran:
        """Run the real program."""
        done = subprocess.run(
            [sys.executable, "-m", "mcp_entry", *words],
            cwd=self.repo,
            env={**self.environ, "PYTHONPATH": str(ROOT), **environ},
            input=stdin,
            capture_output=True,
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def keep(self, *, number: int | None = 1, task: str = "Fix it", step: str | None = "agent", **fields: Any) -> str:
        """A record without a receipt: work that goes on."""
        delegation_id = new_id("dg")
        card = self.card(task, **fields)
        self.records.create(admit(card, self.settings, tool="run", id=delegation_id), number)
        if step is not None:
            progress = Progress(step=step, turn=2, max_turns=25, detail="run_bash")  # pyright: ignore[reportArgumentType]
            self.records.write_status(delegation_id, progress)
        return delegation_id

    def end(self, delegation_id: str, outcome: str, *, patch: bytes | None = None, **fields: Any) -> Receipt:
        """Give the record its receipt, as the flow would."""
        request, entry = self.records.request(delegation_id), self.records.entry(delegation_id)
        summary = None
        if patch is not None:
            path = self.records.folder(delegation_id) / "patch.diff"
            path.write_bytes(patch)
            summary = PatchSummary(path=str(path), files=1, insertions=1, deletions=1, sha256="0" * 64)
        receipt = Receipt.model_validate(
            {
                "id": delegation_id,
                "outcome": outcome,
                "expects": request.card.expects,
                "agent": request.agent.name,
                "agent_source": request.agent.source,
                "model_requested": request.card.model,
                "model_used": request.endpoint.alias,
                "bucket": request.endpoint.bucket,
                "lane": request.endpoint.lane,
                "task": request.card.task[:200],
                "isolation": request.card.isolation,
                "repo": request.repo,
                "base_commit": request.base_commit,
                "patch": summary,
                "cost": Cost(amount_usd=None, kind="unknown"),
                "number": entry.number,
                "created_at": request.created_at,
                "ended_at": datetime.now(UTC),
                **fields,
            }
        )
        self.records.write_receipt(receipt)
        self.records.write_status(delegation_id, Progress(step="done", detail=None))
        return receipt
