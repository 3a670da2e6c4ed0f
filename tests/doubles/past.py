"""Records of delegations that ended in the past, written as the flow writes them."""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from delegation.card import Card
from delegation.home import Home
from delegation.ids import new_id
from delegation.receipt import Cost, PatchSummary, Receipt, Usage
from delegation.records import Progress, RecordStore
from delegation.request import Agent, DelegationRequest, Endpoint, Limits

UNKNOWN = Cost(amount_usd=None, kind="unknown")
REPO = "/home/me/repo"


def reported(amount: float | None) -> Cost:
    return Cost(amount_usd=amount, kind="reported")


@dataclass
class PastRecords:
    """One home's records. `add` makes one and returns its id; without an outcome it goes on."""

    root: Path
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    number: int = 0

    @property
    def home(self) -> Home:
        return Home(root=self.root, config_file=self.root / "config" / "delegate.toml")

    @property
    def store(self) -> RecordStore:
        return RecordStore(self.home)

    def add(
        self,
        outcome: str | None = "verified",
        *,
        ago: timedelta = timedelta(hours=1),
        model: str = "local-m",
        task: str = "Fix the median",
        verify: str | None = "pytest -q",
        patch: bytes | None = None,
        **more: Any,
    ) -> str:
        self.number += 1
        request = self._request(self.now - ago, model, task, verify, more)
        self.store.create(request, self.number)
        (self.store.folder(request.id) / "steps.jsonl").unlink()  # it would have been submitted now
        self.store.write_status(request.id, Progress(step="submitted", updated_at=request.created_at))
        if outcome is None:
            self.store.write_status(request.id, Progress(step="agent", turn=2, max_turns=25))
            return request.id
        self._end(request, outcome, patch, more)
        return request.id

    def aged(self) -> None:
        """As if all had been written some time ago, so that their rows are remembered."""
        before = self.now.timestamp() - 60
        for name in self.store.ids():
            for path in self.store.folder(name).iterdir():
                os.utime(path, (before, before))

    def _request(
        self, at: datetime, model: str, task: str, verify: str | None, more: dict[str, Any]
    ) -> DelegationRequest:
        repo, lane = more.pop("repo", REPO), more.pop("lane", "metered")
        endpoint = Endpoint(
            alias=model,
            base_url="http://127.0.0.1:1/v1",
            format="openai_chat",
            model=model,
            bucket=more.pop("bucket", model),
            quota_pool=model,
            lane=lane,
            key_ref=more.pop("key_ref", None),
        )
        return DelegationRequest(
            id=new_id("dg", at),
            card=Card(task=task, repo=repo, verify=verify, backend=more.pop("backend", None)),
            repo=repo,
            is_git=True,
            base_commit="0" * 40,
            agent=Agent(name=more.pop("agent", "coder"), source="built-in", system_prompt="work"),
            endpoint=endpoint,
            limits=Limits(max_turns=25, timeout_seconds=60, max_tokens=100),
            confinement="auto",
            network=True,
            parent_id=more.pop("parent_id", None),
            night_id=more.pop("night_id", None),
            created_at=at,
        )

    def _end(self, request: DelegationRequest, outcome: str, patch: bytes | None, more: dict[str, Any]) -> None:
        summary = None
        if patch is not None:
            path = self.store.folder(request.id) / "patch.diff"
            path.write_bytes(patch)
            summary = PatchSummary(path=str(path), files=1, insertions=2, deletions=1, sha256="0" * 64)
        cost = more.pop("cost", UNKNOWN)
        values: dict[str, Any] = {
            "id": request.id,
            "outcome": outcome,
            "expects": "change",
            "agent": request.agent.name,
            "agent_source": "built-in",
            "model_requested": None,
            "model_used": request.endpoint.alias,
            "bucket": request.endpoint.bucket,
            "lane": request.endpoint.lane,
            "task": request.card.task[:200],
            "repo": request.repo,
            "base_commit": request.base_commit,
            "patch": summary,
            "turns": 2,
            "usage": Usage(input_tokens=100, output_tokens=10, requests=2),
            "cost": cost,
            "costs": (cost,),
            "parent_id": request.parent_id,
            "number": self.number,
            "created_at": request.created_at,
            "ended_at": request.created_at + timedelta(minutes=3),
        }
        self.store.write_receipt(Receipt.model_validate(values | more))
        self.store.write_status(request.id, Progress(step="done", updated_at=request.created_at + timedelta(minutes=3)))
