"""What the front door asks of Prefect: its REST API, by httpx. (Its events: `prefect_events`.)

The `prefect` package is not imported: that alone costs 1.6 s, and every `delegate run` would pay it.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx

from delegation.errors import StackError, StackNotRunning
from delegation.stack_state import FLOWS_MISSING

DEPLOYMENT = "delegation/delegation"
POOL = "delegations"
TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})
_UNFINISHED = ["SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING"]
PATIENCE_SECONDS = 30.0
COMING_BACK_SECONDS = 30.0
_CREATION_TRIES = 4
_PAGE = 200
_HEALTH_SECONDS = 10.0
_ENDING_SECONDS = 15.0
_BUSY = frozenset({429, 502, 503, 504})
_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 3.0

StateType = Literal[
    "SCHEDULED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "CRASHED", "PAUSED", "CANCELLING"
]


@dataclass(frozen=True)
class FlowRun:
    """What the front door wants to know of a flow run. `since` is when it came into its state."""

    id: str
    name: str
    state: StateType | None
    state_name: str | None
    message: str | None
    since: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def has_crashed(self) -> bool:
        """Ended for now: it may be taken up again."""
        return self.state == "CRASHED"

    @property
    def has_process(self) -> bool:
        """Whether it has not ended, and there is a process that hears of what is wanted of it."""
        return not self.has_ended and self.state != "SCHEDULED"


@dataclass(frozen=True)
class NewRun:
    """A flow run to be made. The same `idempotency_key` gives the same run, however often it is sent."""

    name: str
    parameters: Mapping[str, Any]
    tags: Sequence[str]
    work_queue: str
    idempotency_key: str
    begins: datetime | None = None


@dataclass(frozen=True)
class Schedule:
    """When a deployment runs by itself, by the clock of a time zone, and with what."""

    cron: str
    time_zone: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Deployment:
    id: str
    pool: str
    name: str = DEPLOYMENT


class PrefectApi:
    """One connection to a Prefect server. Use it as a context manager.

    A server that is busy (503 while its database is locked, or while it starts) is asked again for `patience_seconds`.
    Nothing answering raises StackNotRunning: at once, or after `COMING_BACK_SECONDS` where `may_come_back` says that
    somebody starts it again. An answer that is no use raises StackError with the server's own words.
    """

    def __init__(
        self,
        api_url: str,
        *,
        auth_string: str | None = None,
        api_key: str | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = 15,
        transport: httpx.BaseTransport | None = None,
        may_come_back: Callable[[], bool] = lambda: False,
        warnings: Sequence[str] = (),
    ) -> None:
        self.api_url = api_url.rstrip("/")
        self._patience_seconds = patience_seconds
        self._may_come_back = may_come_back
        self._warnings = warnings
        self._own = _client(self.api_url, auth_string, api_key, timeout_seconds, transport) if transport else None
        self._http = self._own or _KEPT.client(self.api_url, auth_string, api_key, timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.close()

    def is_healthy(self) -> bool:
        """Whether the server answers and takes our credentials. Never raises for a server that does not."""
        try:
            return self._http.get(f"{self.api_url}/admin/version", timeout=_HEALTH_SECONDS).status_code == 200
        except httpx.HTTPError:
            return False

    def deployment(self, name: str = DEPLOYMENT) -> Deployment:
        """The deployment of that name, as it was read last. Raises StackError when the stack has not deployed it."""
        known = _KEPT.deployments.get((self.api_url, name)) if self._own is None else None
        return known or self._read_deployment(name)

    def _read_deployment(self, name: str) -> Deployment:
        found = self._get(f"/deployments/name/{name}")
        if found is None:
            why = next((each for each in self._warnings if each.startswith(FLOWS_MISSING)), None)
            remedy = f"{why}; `delegate status` has it, too" if why else "run `delegate up`"
            raise StackError(f"the Prefect server at {self.api_url} has no deployment {name!r}: {remedy}")
        deployment = Deployment(id=found["id"], pool=found.get("work_pool_name") or POOL, name=name)
        _KEPT.deployments[self.api_url, name] = deployment
        return deployment

    def create_flow_run(self, deployment: Deployment, run: NewRun) -> FlowRun:
        """Create the run, or find the one that has its idempotency key."""
        body: dict[str, Any] = {
            "name": run.name,
            "parameters": dict(run.parameters),
            "tags": list(run.tags),
            "work_queue_name": run.work_queue,
            "idempotency_key": run.idempotency_key,
        }
        if run.begins is not None:
            details = {"scheduled_time": run.begins.isoformat()}
            body["state"] = {"type": "SCHEDULED", "name": "Scheduled", "state_details": details}
        answer = self._send("POST", f"/deployments/{deployment.id}/create_flow_run", body)
        if answer.status_code == HTTPStatus.NOT_FOUND:  # a new server, where it has another id
            deployment = self._read_deployment(deployment.name)
            answer = self._send("POST", f"/deployments/{deployment.id}/create_flow_run", body)
        return _flow_run(self._content(answer))

    def flow_run(self, flow_run_id: str) -> FlowRun | None:
        """The run, or None when the server has none of that id."""
        found = self._get(f"/flow_runs/{flow_run_id}")
        return None if found is None else _flow_run(found)

    def set_schedule(self, deployment: Deployment, slug: str, schedule: Schedule | None) -> bool:
        """Put the deployment's schedule of that name in the place of the one that is there, or only take it away.

        Runs that were planned by the old one go with it. Returns whether there was one.
        """
        path = f"/deployments/{deployment.id}/schedules"
        old = [each["id"] for each in self._get(path) or () if each.get("slug") == slug]
        for each in old:
            answer = self._send("DELETE", f"{path}/{each}")
            if not answer.is_success and answer.status_code != HTTPStatus.NOT_FOUND:
                raise self._refused(answer)
        if schedule is not None:
            timing = {"cron": schedule.cron, "timezone": schedule.time_zone, "day_or": True}
            body = {"active": True, "slug": slug, "schedule": timing, "parameters": dict(schedule.parameters)}
            answer = self._send("POST", path, [body])
            if not answer.is_success:
                raise self._refused(answer)
        return bool(old)

    def unfinished_count(self, tag: str | None = None) -> int:
        """How many runs of the delegation flow have not ended; with `tag`, of those that carry it."""
        runs: dict[str, Any] = {"state": {"type": {"any_": _UNFINISHED}}}
        if tag is not None:
            runs["tags"] = {"all_": [tag]}
        body = {"flows": {"name": {"any_": [DEPLOYMENT.split("/")[0]]}}, "flow_runs": runs}
        return int(self._post("/flow_runs/count", body))

    def flow_run_tagged(self, tag: str) -> FlowRun | None:
        """The newest run that carries the tag, or None."""
        return next(iter(self.flow_runs_tagged(tag, most=1)), None)

    def flow_runs_tagged(self, *tags: str, most: int) -> list[FlowRun]:
        """The newest runs that carry all of the tags, by when they were to begin."""
        body = {"flow_runs": {"tags": {"all_": list(tags)}}, "sort": "EXPECTED_START_TIME_DESC", "limit": most}
        return [_flow_run(found) for found in self._post("/flow_runs/filter", body)]

    def cancel(self, flow_run_id: str) -> FlowRun | None:
        """Ask for cancellation. A run without a process is Cancelled at once, another Cancelling for some seconds."""
        run = self.flow_run(flow_run_id)
        if run is None or (run.has_ended and not run.has_crashed):
            return run
        if not run.has_process:  # also one that had a process once; a crashed one would be taken up again
            self._set_state(flow_run_id, {"type": "CANCELLED", "name": "Cancelled"}, force=run.has_crashed)
        else:
            self._set_state(flow_run_id, {"type": "CANCELLING", "name": "Cancelling"}, force=False)
        return self.flow_run(flow_run_id)

    def end(self, flow_run_id: str, state: StateType, name: str, message: str) -> None:
        """Say how a run ended that cannot say it any more: its process is gone. Prefect's own word for that (Crashed)
        is replaced; one that has ended otherwise stays as it is."""
        run = self.flow_run(flow_run_id)
        if run is not None and (not run.has_ended or run.has_crashed):
            self._set_state(flow_run_id, {"type": state, "name": name, "message": message}, force=True)

    def reschedule(self, flow_run_id: str) -> FlowRun:
        """Run it again, as the UI's Retry does: steps with a stored result are not repeated.

        The receipt is out a moment before the run ends, so a run that still ends is waited for. Raises StackError when
        the run is gone, and when it has not ended.
        """
        run = self._ended_run(flow_run_id)
        if run is None:
            raise StackError(f"the Prefect server at {self.api_url} no longer has the flow run {flow_run_id!r}")
        if not run.has_ended:
            raise StackError(
                f"the flow run {flow_run_id!r} has not ended (it is {run.state_name}): wait for it, or cancel it"
            )
        self._set_state(flow_run_id, {"type": "SCHEDULED", "name": "AwaitingRetry"}, force=True)
        return self.flow_run(flow_run_id) or run

    def _ended_run(self, flow_run_id: str) -> FlowRun | None:
        deadline = time.monotonic() + _ENDING_SECONDS
        while (run := self.flow_run(flow_run_id)) is not None and not run.has_ended and time.monotonic() < deadline:
            time.sleep(_FIRST_DELAY_SECONDS)
        return run

    def limits(self, prefix: str) -> dict[str, int]:
        """The concurrency limits whose names begin so, by name."""
        found = self._post("/v2/concurrency_limits/filter", {"limit": _PAGE, "offset": 0})
        return {each["name"]: int(each["limit"]) for each in found if each["name"].startswith(prefix)}

    def ensure_limit(self, name: str, limit: int) -> None:
        """Create the concurrency limit where it is missing. One that is there is somebody's setting and stays."""
        body = {"name": name, "limit": limit, "active": True}
        self._ensure(f"/v2/concurrency_limits/{quote(name)}", "/v2/concurrency_limits/", body)

    def ensure_queue(self, pool: str, name: str, *, limit: int, priority: int | None, chosen: bool = False) -> None:
        """Create the work queue where it is missing; one that is there stays, unless its limit was `chosen` by a user.

        Priority 1 puts a queue before all others of the pool and moves them down; none puts it behind all.
        """
        queues = f"/work_pools/{quote(pool)}/queues"
        path = f"{queues}/{quote(name)}"
        body = {"name": name, "concurrency_limit": limit} | ({"priority": priority} if priority else {})
        self._ensure(path, queues, body)
        if chosen and (self._get(path) or {}).get("concurrency_limit") != limit:
            answer = self._send("PATCH", path, {"concurrency_limit": limit})
            if not answer.is_success:
                raise self._refused(answer)

    def _ensure(self, path: str, collection: str, body: Mapping[str, Any]) -> None:
        """Several front doors may create the same thing at once, which meets as 409 and even as 500: look again."""
        for attempt in range(_CREATION_TRIES):
            if self._get(path) is not None:
                return
            answer = self._send("POST", collection, body)
            if answer.is_success or answer.status_code == HTTPStatus.CONFLICT:
                return
            if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR or attempt == _CREATION_TRIES - 1:
                raise self._refused(answer)
            time.sleep(_FIRST_DELAY_SECONDS * 2**attempt)

    def _set_state(self, flow_run_id: str, state: Mapping[str, Any], *, force: bool) -> None:
        self._post(f"/flow_runs/{flow_run_id}/set_state", {"state": state, "force": force})

    def _get(self, path: str) -> Any:
        answer = self._send("GET", path)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        return self._content(answer)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._content(self._send("POST", path, body))

    def _content(self, answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json()
        raise self._refused(answer)

    def _refused(self, answer: httpx.Response) -> StackError:
        return StackError(
            f"the Prefect server at {self.api_url} refused {answer.request.method} {answer.request.url.path} "
            f"with {answer.status_code}: {answer.text[:300]}"
        )

    def _send(self, method: str, path: str, body: Mapping[str, Any] | Sequence[Any] | None = None) -> httpx.Response:
        began = time.monotonic()
        delay = _FIRST_DELAY_SECONDS
        while True:
            passed = time.monotonic() - began + delay
            try:
                answer = self._once(method, path, body, may_retry=passed < self._patience_seconds)
            except StackNotRunning:
                if passed > COMING_BACK_SECONDS or not self._may_come_back():
                    raise
                answer = None
            if answer is not None:
                return answer
            time.sleep(delay * random.uniform(0.5, 1.0))  # those who were refused together do not come back together
            delay = min(delay * 2, _LONGEST_DELAY_SECONDS)

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | Sequence[Any] | None, *, may_retry: bool
    ) -> httpx.Response | None:
        """One try; None asks for another. Every call here may be repeated: a creation carries its idempotency key."""
        try:
            answer = self._http.request(method, f"{self.api_url}{path}", json=body)
        except httpx.ConnectError as error:
            raise StackNotRunning(f"nothing answers at {self.api_url}: run `delegate up`") from error
        except httpx.HTTPError as error:
            if may_retry:
                return None
            raise StackError(f"the Prefect server at {self.api_url} broke off {method} {path}: {error!r}") from error
        return None if answer.status_code in _BUSY and may_retry else answer


def _client(
    api_url: str,
    auth_string: str | None,
    api_key: str | None,
    timeout_seconds: float,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    user, _, password = (auth_string or "").partition(":")
    return httpx.Client(
        auth=httpx.BasicAuth(user, password) if auth_string else None,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
        timeout=timeout_seconds,
        transport=transport,
        verify=api_url.startswith("https:"),  # loading certificates takes longer than a whole call on loopback
        trust_env=False,  # a proxy variable of the caller must not see our server
    )


class _Kept:
    """What one process keeps of its server: an open connection, and which deployments it has. One server at a time."""

    def __init__(self) -> None:
        self.deployments: dict[tuple[str, str], Deployment] = {}
        self._key: tuple[object, ...] = ()
        self._http: httpx.Client | None = None
        self._lock = threading.Lock()

    def client(
        self, api_url: str, auth_string: str | None, api_key: str | None, timeout_seconds: float
    ) -> httpx.Client:
        with self._lock:
            key = (api_url, auth_string, api_key, timeout_seconds)
            if self._http is None or key != self._key:
                self._close()
                self.deployments.clear()
                self._key, self._http = key, _client(api_url, auth_string, api_key, timeout_seconds)
            return self._http

    def _close(self) -> None:
        if self._http is not None:
            self._http.close()


_KEPT = _Kept()


def _flow_run(found: Mapping[str, Any]) -> FlowRun:
    state = found.get("state") or {}
    return FlowRun(
        id=found["id"],
        name=found["name"],
        state=found.get("state_type") or state.get("type"),
        state_name=found.get("state_name") or state.get("name"),
        message=state.get("message"),
        since=datetime.fromisoformat(state["timestamp"]) if state.get("timestamp") else None,
    )
