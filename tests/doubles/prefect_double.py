"""Prefect's REST API on loopback, as far as the front door uses it; what it answers was taken from Prefect 3.9.1.

In a test:      with PrefectDouble(auth_string="admin:secret") as prefect:
                    prefect.api_url, prefect.runs, prefect.requests
"""

import base64
import json
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}
_LONGEST_PARAMETERS = 524_288


@dataclass
class PrefectDouble:
    """Flow runs, queues and limits in memory. `refuse` answers a request instead when it returns a status."""

    auth_string: str | None = None
    has_deployment: bool = True
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    refuse: Callable[[str, str], int | None] = lambda method, path: None
    unfinished: int | None = None
    port: int = 0  # any that is free

    def __enter__(self) -> Self:
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet; else each answer waits 40 ms for an acknowledgement

            def do_GET(self) -> None:
                double._answer(self)

            def do_POST(self) -> None:
                double._answer(self)

            def do_PATCH(self) -> None:
                double._answer(self)

            def do_DELETE(self) -> None:
                double._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # its name
                pass

        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api"

    def end(self, flow_run_id: str, state: str, name: str | None = None, message: str | None = None) -> None:
        """Put a run into a state, as the worker or a person would."""
        run = self.runs[flow_run_id]
        name = name or state.capitalize()
        now = datetime.now(UTC).isoformat()
        kept = {"type": state, "name": name, "message": message, "timestamp": now}
        run.update(state_type=state, state_name=name, state=kept)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length) or b"null")
        path = unquote(handler.path.removeprefix("/api"))
        with self._lock:
            self.requests.append((handler.command, path))
            status, content = self._answered(handler, path, body)
        payload = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)

    def _answered(self, handler: BaseHTTPRequestHandler, path: str, body: Any) -> tuple[int, Any]:
        if self.auth_string is not None:
            wanted = "Basic " + base64.b64encode(self.auth_string.encode()).decode()
            if handler.headers.get("Authorization") != wanted:
                return 401, {"exception_message": "Unauthorized"}
        refused = self.refuse(handler.command, path)
        if refused is not None:
            return refused, {"exception_message": "refused by the test"}
        for pattern, answer in _ROUTES:
            if match := re.fullmatch(pattern, f"{handler.command} {path}"):
                return answer(self, body, *match.groups())
        return 404, {"detail": "no such route"}

    def _version(self, body: Any) -> tuple[int, Any]:
        return 200, "3.9.1"

    def _deployment(self, body: Any, name: str) -> tuple[int, Any]:
        if not self.has_deployment or name not in (
            "delegation/delegation",
            "night_shift/night",
            "comparison/comparison",
        ):
            return 404, {"detail": "Deployment not found"}
        return 200, {"id": "00000000-0000-4000-8000-000000000001", "work_pool_name": "delegations"}

    def _create(self, body: Any, deployment: str) -> tuple[int, Any]:
        if len(json.dumps(body["parameters"])) > _LONGEST_PARAMETERS:
            return 422, {"exception_message": "Flow run parameters must be less than 524,288 bytes"}
        for run in self.runs.values():
            if run["idempotency_key"] == body["idempotency_key"]:
                return 200, run
        run = {"id": str(uuid.uuid4()), **body}
        self.runs[run["id"]] = run
        self.end(run["id"], "SCHEDULED")
        return 201, run

    def _run(self, body: Any, flow_run_id: str) -> tuple[int, Any]:
        run = self.runs.get(flow_run_id)
        return (200, run) if run else (404, {"detail": "Flow run not found"})

    def _filtered(self, body: Any) -> tuple[int, Any]:
        wanted = set(body["flow_runs"]["tags"]["all_"])
        return 200, [run for run in self.runs.values() if wanted <= set(run["tags"])][: body["limit"]]

    def _count(self, body: Any) -> tuple[int, Any]:
        if self.unfinished is not None:
            return 200, self.unfinished
        return 200, len([run for run in self.runs.values() if run["state_type"] not in _ENDED])

    def _set_state(self, body: Any, flow_run_id: str) -> tuple[int, Any]:
        run, wanted = self.runs[flow_run_id], body["state"]
        if wanted["type"] == "CANCELLING" and run["state_type"] == "SCHEDULED":
            self.end(flow_run_id, "CANCELLED")  # without a process there is nothing to end
            return 201, {"status": "REJECT"}
        self.end(flow_run_id, wanted["type"], wanted.get("name"))
        return 201, {"status": "ACCEPT"}

    def _schedules(self, body: Any, deployment: str) -> tuple[int, Any]:
        return 200, list(self.schedules.values())

    def _new_schedule(self, body: Any, deployment: str) -> tuple[int, Any]:
        for each in body:
            made = {"id": str(uuid.uuid4()), **each}
            self.schedules[made["id"]] = made
        return 201, body

    def _no_schedule(self, body: Any, deployment: str, schedule: str) -> tuple[int, Any]:
        return (200, None) if self.schedules.pop(schedule, None) else (404, {"detail": "not found"})

    def _limit(self, body: Any, name: str) -> tuple[int, Any]:
        return (200, self.limits[name]) if name in self.limits else (404, {"detail": "not found"})

    def _new_limit(self, body: Any) -> tuple[int, Any]:
        if body["name"] in self.limits:
            return 409, {"detail": "exists"}
        self.limits[body["name"]] = body
        return 201, body

    def _queue(self, body: Any, name: str) -> tuple[int, Any]:
        return (200, self.queues[name]) if name in self.queues else (404, {"detail": "not found"})

    def _new_queue(self, body: Any) -> tuple[int, Any]:
        if body["name"] in self.queues:
            return 409, {"detail": "exists"}
        self.queues[body["name"]] = body
        return 201, body

    def _changed_queue(self, body: Any, name: str) -> tuple[int, Any]:
        self.queues[name].update(body)
        return 200, self.queues[name]


_ROUTES: tuple[tuple[str, Callable[..., tuple[int, Any]]], ...] = (
    (r"GET /admin/version", PrefectDouble._version),
    (r"GET /deployments/name/(.+)", PrefectDouble._deployment),
    (r"POST /deployments/([^/]+)/create_flow_run", PrefectDouble._create),
    (r"GET /deployments/([^/]+)/schedules", PrefectDouble._schedules),
    (r"POST /deployments/([^/]+)/schedules", PrefectDouble._new_schedule),
    (r"DELETE /deployments/([^/]+)/schedules/([^/]+)", PrefectDouble._no_schedule),
    (r"POST /flow_runs/filter", PrefectDouble._filtered),
    (r"POST /flow_runs/count", PrefectDouble._count),
    (r"POST /flow_runs/([^/]+)/set_state", PrefectDouble._set_state),
    (r"GET /flow_runs/([^/]+)", PrefectDouble._run),
    (r"GET /v2/concurrency_limits/(.+)", PrefectDouble._limit),
    (r"POST /v2/concurrency_limits/", PrefectDouble._new_limit),
    (r"GET /work_pools/delegations/queues/(.+)", PrefectDouble._queue),
    (r"POST /work_pools/delegations/queues", PrefectDouble._new_queue),
    (r"PATCH /work_pools/delegations/queues/(.+)", PrefectDouble._changed_queue),
)
