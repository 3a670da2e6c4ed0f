"""The Prefect server's stream of events, by WebSocket: who waits for flow runs hears at once that one of them changed.

Like `prefect_api` it speaks the server's protocol itself: the `prefect` package takes 1.6 s to import.
"""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from delegation.stack_state import StackState

_CONNECT_SECONDS = 5.0
_HEARTBEAT_SECONDS = 20.0
_LEARNT_SINCE = timedelta(minutes=1)  # what came between the look before and the connection is told, too
_PREFIX = "prefect.flow-run."


class RunEvents:
    """A context manager that listens in a thread. `wait` returns at once when one of the flow runs changed its state.

    Whoever waits looks for itself what there is; an event that is lost costs only time. `works` says whether the
    stream is open: without it, whoever waits has to look more often.
    """

    def __init__(self, state: StackState, flow_run_ids: Sequence[str]) -> None:
        self._state = state
        self._ids = tuple(flow_run_ids)
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._socket: Any = None
        self.works = False
        self._thread = threading.Thread(target=self._listen, name="run events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if (socket := self._socket) is not None:
            socket.close()
        self._thread.join(_CONNECT_SECONDS)

    @property
    def listens(self) -> bool:
        """Whether it still can tell anything."""
        return self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds at most; whether something changed since the last call."""
        changed = self._changed.wait(seconds)
        self._changed.clear()
        return changed

    def _listen(self) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        url = self._state.api_url.rstrip("/").replace("http", "ws", 1) + "/events/out"
        try:
            with connect(
                url,
                subprotocols=["prefect"],  # type: ignore[list-item]  # a NewType of str
                open_timeout=_CONNECT_SECONDS,
                close_timeout=1,
                ping_interval=_HEARTBEAT_SECONDS,
                proxy=None,  # a proxy variable of the caller must not see our server
            ) as socket:
                self._socket = socket
                self._subscribe(socket)
                for _ in socket:
                    self._changed.set()
        except (OSError, WebSocketException, ValueError):
            pass
        finally:
            self.works = False
            self._changed.set()  # whoever waits has to know that nothing more comes

    def _subscribe(self, socket: Any) -> None:
        """Raises ValueError where the server does not take our credentials."""
        token = self._state.api_key or self._state.auth_string
        socket.send(json.dumps({"type": "auth", "token": token}))
        if json.loads(socket.recv(_CONNECT_SECONDS)).get("type") != "auth_success":
            raise ValueError("the server refused the stream of its events")
        now = datetime.now(UTC)
        occurred = {"since": (now - _LEARNT_SINCE).isoformat(), "until": (now + timedelta(days=365)).isoformat()}
        resources = {"id": [f"{_PREFIX}{each}" for each in self._ids]}
        wanted = {"event": {"prefix": [_PREFIX]}, "resource": resources, "occurred": occurred}
        socket.send(json.dumps({"type": "filter", "filter": wanted}))
        self.works = not self._closing.is_set()
