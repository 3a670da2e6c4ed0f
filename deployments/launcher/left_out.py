"""What Prefect's engine does in every flow process and nobody here needs, left out in those that the launcher forks.

Each is a few requests to the server for every run: a third of what it does for a short delegation. Without the launcher
all of it is done, and works the same.
"""

import importlib
import json
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

if TYPE_CHECKING:
    from prefect._flow_run_suspension import FlowRunSuspensionRequest

RELATED_VARIABLE = "DELEGATE_STACK_RELATED"
_LOOK_SECONDS = 30.0
leaves_out = True
"""The launcher turns it off where Prefect lacks a name that this needs."""
_KINDS = ("flow", "deployment", "work-queue", "work-pool")


def related_variable(configuration: Any, work_pool: Any, flow_run: Any) -> dict[str, str]:
    """For the environment of a flow process: names of what its events refer to, so that it need not ask for them."""
    related = configuration._related_objects
    found = {
        f"flow.{flow_run.flow_id}": related.get("flow"),
        f"deployment.{flow_run.deployment_id}": related.get("deployment"),
        f"work-pool.{work_pool.name}": work_pool,
        f"work-queue.{flow_run.work_queue_id}": SimpleNamespace(
            id=flow_run.work_queue_id, name=flow_run.work_queue_name
        ),
    }
    entries = {
        key: {"id": str(each.id), "name": each.name, "tags": [*getattr(each, "tags", [])]}
        for key, each in found.items()
        if each is not None and each.id and each.name
    }
    return {RELATED_VARIABLE: json.dumps(entries)}


def complete_models() -> None:
    """In the launcher: build the validators that Prefect's models put off until they are first used."""
    from pydantic import BaseModel

    waiting, seen = list[type[BaseModel]]([BaseModel]), set[type[BaseModel]]()
    while waiting:
        model = waiting.pop()
        if model not in seen:
            seen.add(model)
            waiting += model.__subclasses__()
            if model is not BaseModel and not model.__pydantic_complete__:
                with suppress(Exception):  # one that cannot be completed yet is left for its first use
                    model.model_rebuild(raise_errors=False)


def know_certificates() -> None:
    """In the launcher: read once the authorities' certificates, which each of Prefect's clients reads although it
    speaks to a server on loopback without TLS. A server that is spoken to with TLS has them read each time."""
    orchestration: Any = importlib.import_module("prefect.client.orchestration")
    if urlsplit(os.environ.get("PREFECT_API_URL", "")).scheme == "http":
        orchestration.ssl = _Certificates(orchestration.ssl)


class _Certificates:
    """Stands for the module `ssl` in one other module."""

    def __init__(self, ssl: Any) -> None:
        self._ssl, self._context = ssl, ssl.create_default_context()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ssl, name)

    def create_default_context(self, *_: object, **__: object) -> Any:
        return self._context


def prefect_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Prefect's settings are read from and that a flow process could differ in."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PREFECT_") and not name.startswith(("PREFECT__", "PREFECT_WORKER_"))
    }


def leave_out(environment: Mapping[str, str]) -> None:
    """In a flow process, before the engine runs. `environment` is the one that the worker gave."""
    related = environment.get(RELATED_VARIABLE)
    os.environ.pop(RELATED_VARIABLE, None)
    if leaves_out:
        _know_related(related)
        _watch_suspension_seldom()


def _know_related(text: str | None) -> None:
    """Fill Prefect's memory of what events refer to."""
    from prefect.events.related import RESOURCE_CACHE
    from prefect.types._datetime import now

    for key, each in json.loads(text or "{}").items():
        kind = next(name for name in _KINDS if key.startswith(name + "."))
        entry = {"kind": kind, "object": SimpleNamespace(**each)}
        RESOURCE_CACHE[key] = (entry, now("UTC"))  # type: ignore[assignment]  # it reads these three names of it alone


def _watch_suspension_seldom() -> None:
    """Prefect opens a socket for the events of each run, to hear that somebody suspends it; we ask now and then."""
    flow_engine: Any = importlib.import_module("prefect.flow_engine")
    flow_engine.observe_flow_run_suspension = _observe_suspension


@contextmanager
def _observe_suspension(
    flow_run_id: UUID,
    suspension_request: "FlowRunSuspensionRequest",
    *_: object,
    seconds: float = _LOOK_SECONDS,
    **__: object,
) -> Generator[None]:
    """In the place of Prefect's own, whatever else that one may be given."""
    ended = threading.Event()
    about = (flow_run_id, suspension_request, seconds, ended)
    watcher = threading.Thread(target=_look, args=about, name="suspension", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(timeout=2)


def _look(flow_run_id: UUID, request: "FlowRunSuspensionRequest", seconds: float, ended: threading.Event) -> None:
    from prefect._flow_run_suspension import is_suspended_flow_run_state
    from prefect.client.orchestration import get_client

    while not ended.wait(seconds):
        try:
            with get_client(sync_client=True) as client:
                state = client.read_flow_run(flow_run_id).state
        except Exception:  # a server that is away: the run goes on, and is asked for again
            continue
        if state is not None and is_suspended_flow_run_state(state):
            request.mark_requested(state)
            return
