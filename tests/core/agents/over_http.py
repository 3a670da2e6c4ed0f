"""An agent on a scripted endpoint, over real HTTP."""

import threading
from pathlib import Path
from typing import Any

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.chat.retry import RetryPolicy
from delegation.request import Endpoint, Limits

QUICK = RetryPolicy(first_wait_seconds=0.01, longest_wait_seconds=0.02, connect_waits_seconds=())


def run_over_http(
    base_url: str,
    toolbox: Toolbox,
    log: Path,
    *,
    limits: dict[str, Any] | None = None,
    cancelled: threading.Event | None = None,
    **entry: Any,
) -> AgentResult:
    """A run for a change; `entry` are fields of the endpoint."""
    fields: dict[str, Any] = {"alias": "m", "model": "m", "format": "openai_chat", "bucket": "b", "quota_pool": "q"}
    endpoint = Endpoint.model_validate({**fields, "lane": "local", "base_url": base_url, **entry})
    bounds: dict[str, Any] = {"max_turns": 60, "timeout_seconds": 60, "max_tokens": 1000, **(limits or {})}
    with connect(endpoint, "key", policy=QUICK) as model:
        return run_agent(
            model=model,
            agent=find_agent(None, toolbox.root, toolbox.root / "none"),
            task="Change a.py.",
            toolbox=toolbox,
            limits=Limits(**bounds),
            trajectory=Trajectory(log),
            expects="change",
            cancelled=cancelled or threading.Event(),
            on_turn=lambda report: None,
        )
