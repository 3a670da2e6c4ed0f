"""Runs of an agent on a script, with everything that was asked, reported and logged."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripted_model import ENDPOINT, ScriptedModel, Step

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.request import Endpoint, Limits

READ = ("read_file", {"path": "a.py"})


class Runs:
    """Runs an agent on a script; keeps the model, the reports and the log."""

    def __init__(self, toolbox: Toolbox, place: Path, cancelled: threading.Event) -> None:
        self.toolbox = toolbox
        self.trajectory = Trajectory(place / "trajectory.jsonl")
        self.cancelled = cancelled
        self.reports: list[TurnReport] = []
        self.model = ScriptedModel([])

    def __call__(
        self, steps: Sequence[Step], *, again: bool = False, endpoint: Endpoint = ENDPOINT, **more: Any
    ) -> AgentResult:
        self.model = ScriptedModel(steps, endpoint, again)
        limits = {"max_turns": 60, "timeout_seconds": 600, "max_tokens": 4096, "budget_usd": None}
        limits.update({name: more.pop(name) for name in list(more) if name in limits})
        facts = {"expects": "change", "on_turn": self.reports.append, "task": "Fix a.py.", **more}
        return run_agent(
            model=self.model,
            agent=find_agent(None, self.toolbox.root, self.toolbox.root / "none"),
            toolbox=self.toolbox,
            limits=Limits(**limits),
            trajectory=self.trajectory,
            cancelled=self.cancelled,
            **facts,
        )


def kinds(run: Runs) -> list[str]:
    return [event["reason"] for event in run.trajectory.events() if event["type"] == "note"]
