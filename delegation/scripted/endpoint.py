"""A scripted model server on loopback: OpenAI chat, Anthropic messages and OpenAI Responses, JSON and SSE.

In a test:      with ScriptedEndpoint([Turn(calls=(Call("run_bash", {"command": "ls"}),)), "Done."]) as endpoint:
                    endpoint.base_url, endpoint.requests, endpoint.connections
As a program:   python -m delegation.scripted FILE [--port 8099] [--log FILE]

Turns, and how they are chosen, are in `turns`; the names of faults in `faults`. Standard library only.
"""

import contextlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast

from delegation.scripted.faults import CUT, FAULTS, SILENCE, broken, refusal
from delegation.scripted.turns import Call, Request, Script, ScriptSource, Turn
from delegation.scripted.wire import streamed, whole

__all__ = ["FAULTS", "Call", "Request", "Script", "ScriptedEndpoint", "Turn"]


class ScriptedEndpoint:
    """Serves a script until `close`. Nothing outside the machine can reach it.

    `requests` are all requests as they came, `calls` those that asked for a reply; `connections` counts accepted
    TCP connections; `gone` counts clients that left before their answer was complete.
    """

    def __init__(
        self,
        script: ScriptSource | Script = (),
        *,
        by: Literal["order", "session"] = "order",
        port: int = 0,
        key: str | None = None,
        log: Path | None = None,
    ) -> None:
        self.script: Script = script if isinstance(script, Script) else Script(script, by)
        self.key: str | None = key
        self.requests: list[Request] = []
        self.gone: int = 0
        self.busy: int = 0
        self.most_busy: int = 0
        self.closing: threading.Event = threading.Event()
        self._lock = threading.Lock()
        self._log = log.open("a", encoding="utf-8", buffering=1) if log else None
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.endpoint = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST" and request.format]

    @property
    def connections(self) -> int:
        return self._server.connections

    def start(self) -> "ScriptedEndpoint":
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop serving; answers still hanging are let go."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._log:
            self._log.close()

    def wait_for(self, count: int, timeout_seconds: float = 10.0) -> None:
        """Until so many requests have come. Raises TimeoutError."""
        self._until(lambda: len(self.requests) >= count, f"{count} requests", timeout_seconds)

    def wait_gone(self, count: int = 1, timeout_seconds: float = 10.0) -> None:
        """Until so many clients have left early. Raises TimeoutError."""
        self._until(lambda: self.gone >= count, f"{count} departures", timeout_seconds)

    def _until(self, reached: Any, what: str, timeout_seconds: float) -> None:
        end = time.monotonic() + timeout_seconds
        while not reached():
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} within {timeout_seconds} s: {len(self.requests)} came, {self.gone} left")
            time.sleep(0.005)

    def record(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            if self._log and not self._log.closed:
                entry = {"t": time.time(), "method": request.method, "path": request.path, "turn": request.turn}
                line = {**entry, "headers": dict(request.headers), "body": request.body}
                self._log.write(json.dumps(line, ensure_ascii=False) + "\n")

    def count_busy(self, change: int) -> None:
        with self._lock:
            self.busy += change
            self.most_busy = max(self.most_busy, self.busy)

    def count_gone(self) -> None:
        with self._lock:
            self.gone += 1

    def __enter__(self) -> "ScriptedEndpoint":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    endpoint: ScriptedEndpoint
    connections = 0

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted = super().get_request()
        self.connections += 1
        return accepted

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def endpoint(self) -> ScriptedEndpoint:
        return cast("_Server", self.server).endpoint

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name for it
        """Quiet: what came is in `requests`."""

    def do_HEAD(self) -> None:
        self.endpoint.record(Request("HEAD", self.path, self._lowered(), {}))
        self._json(200, {})

    def do_GET(self) -> None:
        self.endpoint.record(Request("GET", self.path, self._lowered(), {}))
        path = self.path.split("?")[0]
        if path.endswith("/models"):
            models = [
                {"id": name, "object": "model", "created": 1, "owned_by": "script"}
                for name in self.endpoint.script.models
            ]
            self._json(200, {"object": "list", "data": models})
        elif path in ("/health", "/v1/health"):
            self._json(200, {"status": "ok"})
        else:
            self._json(404, {"error": {"message": f"nothing at {path}", "type": "invalid_request_error"}})

    def do_POST(self) -> None:
        request = self._request()
        self.endpoint.record(request)
        self.endpoint.count_busy(1)
        try:
            self._answer(request)
        except (BrokenPipeError, ConnectionResetError):
            self._left()
        finally:
            self.endpoint.count_busy(-1)

    def _request(self) -> Request:
        raw = self._chunked() if "chunked" in self.headers.get("transfer-encoding", "") else self._sized()
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {"unreadable": raw.decode(errors="replace")}
        return Request("POST", self.path, self._lowered(), body if isinstance(body, dict) else {"value": body})

    def _sized(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _chunked(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _lowered(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _answer(self, request: Request) -> None:
        if self.endpoint.key and not self._authorised():
            return self._json(
                401, {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
            )
        if self.path.split("?")[0].endswith("/count_tokens"):
            return self._json(200, {"input_tokens": len(request.text) // 4})
        if request.format is None:
            return self._json(404, {"error": {"message": f"nothing at {self.path}", "type": "invalid_request_error"}})
        turn = self.endpoint.script.turn_for(request)
        if turn.fault and turn.fault not in FAULTS:
            return self._json(400, {"error": {"message": f"the script names an unknown fault {turn.fault!r}"}})
        return self._serve(turn, request)

    def _authorised(self) -> bool:
        given = {self.headers.get("x-api-key"), (self.headers.get("authorization") or "").removeprefix("Bearer ")}
        return self.endpoint.key in given

    def _serve(self, turn: Turn, request: Request) -> None:
        if turn.delay_seconds and self._client_left_within(turn.delay_seconds):
            return self._left()
        if turn.fault == "disconnect":
            return self._cut()
        if turn.fault == "hang":
            return self._hang()
        if (refused := refusal(turn, request)) is not None:
            return self._send(*refused)
        if turn.fault == "html":
            return self._send(200, [("content-type", "text/html")], b"<html><body>Sign in to the network</body></html>")
        if turn.frames is None and (not request.stream or turn.fault == "json_anyway"):
            return self._whole(turn, request)
        return self._stream(turn, request)

    def _whole(self, turn: Turn, request: Request) -> None:
        body = whole(turn, request)
        if turn.fault == "error_only":
            body = {"error": {"message": "upstream failed", "type": "server_error", "code": 502}}
        data = json.dumps(body, ensure_ascii=False).encode()
        if turn.fault in ("cut", "cut_before_end"):
            self._send(200, [("content-length", str(len(data)))], data[: len(data) // 2])
            return self._cut()
        return self._send(200, self._more_headers(turn), data)

    def _more_headers(self, turn: Turn) -> list[tuple[str, str]]:
        return [(name, str(value)) for name, value in turn.headers.items()]

    def _stream(self, turn: Turn, request: Request) -> None:
        self.send_response(200)
        for name, value in (
            ("content-type", "text/event-stream"),
            ("transfer-encoding", "chunked"),
            *self._more_headers(turn),
        ):
            self.send_header(name, value)
        self.end_headers()
        pause = turn.chunk_delay_seconds or (0.2 if turn.fault == "slow" else 0.0)
        source = iter(turn.frames) if turn.frames is not None else streamed(turn, request)
        for piece in broken(turn, source, request):
            if piece is CUT:
                return self._cut()
            if piece is SILENCE:
                return self._hang()
            self._chunk(piece if isinstance(piece, bytes) else piece.encode())
            if pause and self._client_left_within(pause):
                return self._left()
        self.wfile.write(b"0\r\n\r\n")
        return self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _hang(self) -> None:
        if self._client_left_within(3600.0):
            self._left()
        self.close_connection = True

    def _client_left_within(self, seconds: float) -> bool:
        """Wait so long, or until the client closes its side (True) or the endpoint closes (False)."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.endpoint.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], min(left, 0.02))
            if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
                return True
        return False

    def _left(self) -> None:
        self.endpoint.count_gone()
        self.close_connection = True

    def _cut(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _json(self, status: int, body: Mapping[str, Any]) -> None:
        self._send(status, [], json.dumps(body).encode())

    def _send(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        names = {name.lower() for name, _ in headers}
        own = [("content-type", "application/json"), ("content-length", str(len(data)))]
        self.send_response(status)
        for name, value in [pair for pair in own if pair[0] not in names] + headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
            self.wfile.flush()
