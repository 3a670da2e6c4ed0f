"""Prefect's concurrency limits on loopback, as far as the gate uses them; what it answers was taken from Prefect 3.9.1.

In a test:      with LeaseOffice({"bucket:b": 2}) as office:
                    Leases(office.client(), uuid4()), office.held, office.expire(), office.answer = 503
"""

import json
import re
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from prefect.client.orchestration import SyncPrefectClient


class LeaseOffice:
    """Limits and the leases on them. `answer` is given to every request instead, where it is set."""

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = dict(limits)
        self.held: dict[str, str] = {}
        self.renewals = 0
        self.acquires = 0
        self.answer: int | None = None
        self._ids = {name: str(uuid.uuid4()) for name in limits}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        office = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                office._serve(self)

            def do_POST(self) -> None:
                office._serve(self)

            def log_message(self, format: str, *args: object) -> None:  # its name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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

    def client(self) -> SyncPrefectClient:
        return SyncPrefectClient(self.api_url)

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api"

    def expire(self) -> None:
        """All leases end, as after a time in which nobody could renew them."""
        with self._lock:
            self.held.clear()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers.get("Content-Length") or 0)) or b"null")
        with self._lock:
            status, content = (self.answer, {}) if self.answer else self._answered(handler, body)
        payload = b"" if status == 204 else json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)

    def _answered(self, handler: BaseHTTPRequestHandler, body: Any) -> tuple[int, Any]:
        path = handler.path.removeprefix("/api/v2/concurrency_limits/")
        if path == "increment-with-lease":
            return self._acquired(body["names"][0])
        if path == "decrement-with-lease":
            self.held.pop(body["lease_id"], None)
            return 204, None
        if renewed := re.fullmatch(r"leases/(.+)/renew", path):
            self.renewals += 1
            return (204, None) if renewed[1] in self.held else (410, {"detail": "Lease not found"})
        if handler.command == "POST" and path == "":
            self.limits[body["name"]], self._ids[body["name"]] = body["limit"], str(uuid.uuid4())
            return 201, {"id": self._ids[body["name"]]}
        if handler.command == "GET" and path in self.limits:
            now = "2026-11-30T12:00:00Z"
            more = {"active": True, "active_slots": 0, "denied_slots": 0, "slot_decay_per_second": 0}
            stamps = {"id": self._ids[path], "created": now, "updated": now, "avg_slot_occupancy_seconds": 1.0}
            return 200, {"name": path, "limit": self.limits[path], **more, **stamps}
        return 404, {"detail": "not found"}

    def _acquired(self, name: str) -> tuple[int, Any]:
        self.acquires += 1
        lease = str(uuid.uuid4())
        if name not in self.limits:
            return 200, {"lease_id": lease, "limits": []}  # and lets everybody through
        if list(self.held.values()).count(name) >= self.limits[name]:
            return 423, {"detail": "no slots"}
        self.held[lease] = name
        return 200, {"lease_id": lease, "limits": [{"id": self._ids[name], "name": name, "limit": self.limits[name]}]}
