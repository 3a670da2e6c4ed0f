"""The Prefect process worker of pool `delegations`: it starts each flow run through the launcher's client."""

import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.errors import StackError
from deployments.configuration import WORK_POOL
from deployments.environment import python
from deployments.places import Places
from deployments.prefect_internals import WORKER, problem
from deployments.processes import Child
from deployments.rest import PrefectRest

_START_SECONDS = 90
_BY_THE_CLOCK = {"PREFECT_WORKER_QUERY_SECONDS": "0.5", "PREFECT_WORKER_PREFETCH_SECONDS": "1"}


def worker_name(places: Places) -> str:
    """The same after a restart, another on every host and home: it tells which flow runs are ours to look after."""
    return f"delegate-{socket.gethostname()}-{places.token}"


def worker_child(places: Places, base: dict[str, str], client: dict[str, str]) -> Child:
    """The worker as a process to keep, or Prefect's own where ours lacks what it leans on.

    `client` are the Prefect settings that its flow runs get too.
    """
    named = ("--pool", WORK_POOL, "--name", worker_name(places))
    argv, env = python("-m", "deployments.event_worker", *named), {**base, **client}
    if problem(WORKER):
        argv = python("-m", "prefect", "worker", "start", "--type", "process", "--install-policy", "never", *named)
        env |= _BY_THE_CLOCK
    return Child("worker", argv, env, places.logs / "worker.log", places.stack, stop_seconds=5)


def wait_for_worker(rest: PrefectRest, places: Places, child: Child, since: datetime) -> None:
    """Returns once the server has seen it after `since`. Raises StackError when it never comes."""
    deadline, name = time.monotonic() + _START_SECONDS, worker_name(places)
    while time.monotonic() < deadline:
        found = rest.call("POST", f"/work_pools/{WORK_POOL}/workers/filter", {})
        if any(_seen(worker, name) > since for worker in found):
            return
        if not child.is_running():
            raise StackError(f"the worker ended at once: see {str(child.log)!r}")
        time.sleep(0.1)
    raise StackError(f"the worker did not report within {_START_SECONDS} s: see {str(child.log)!r}")


def _seen(worker: dict[str, Any], name: str) -> datetime:
    text = worker.get("last_heartbeat_time")
    return datetime.fromisoformat(text) if text and worker["name"] == name else datetime.min.replace(tzinfo=UTC)


def launcher_command(places: Places, runtime: Path) -> list[str]:
    """How a flow run is started: the launcher's client, small enough to begin in a hundredth of a second."""
    client = Path(__file__).parent / "launcher" / "client.py"
    return python("-S", "-E", os.fspath(client), os.fspath(launcher_socket(runtime)), os.fspath(places.run_logs))


def launcher_socket(runtime: Path) -> Path:
    return runtime / "launcher.sock"
