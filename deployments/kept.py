"""What the stack remembers between two runs: its port and its passwords, in one private file of the home."""

import json
import secrets
import socket
from typing import Any

from delegation.errors import StackError
from delegation.files import publish, text_or_none
from deployments.places import Places


class Kept:
    """A small mapping on disk. Values are made once and then stay."""

    def __init__(self, places: Places) -> None:
        self._path = places.kept
        text = text_or_none(self._path)
        self._values: dict[str, Any] = _parsed(text) if text else {}

    def get(self, name: str) -> Any:
        return self._values.get(name)

    def set(self, name: str, value: Any) -> None:
        if self._values.get(name) != value:
            self._values[name] = value
            publish(self._path, json.dumps(self._values, indent=1))

    def secret(self, name: str) -> str:
        """A random text that is the same on every call."""
        if not self._values.get(name):
            self.set(name, secrets.token_urlsafe(24))
        return str(self._values[name])


def server_port(kept: Kept, wanted: int | None) -> int:
    """The wanted port, else the one used last, else a free one. Raises StackError naming who holds a wanted one."""
    if wanted is not None:
        if not is_free(wanted):
            raise StackError(
                f"port {wanted} (DELEGATE_SERVER_PORT) is taken by {holder_of(wanted)}: end it, or choose another"
            )
        return wanted
    last = kept.get("server_port")
    return last if isinstance(last, int) and is_free(last) else _free_port()


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def holder_of(port: int) -> str:
    """The program that listens on a port of this machine, as far as this user may know it."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
        pid = next((c.pid for c in connections if c.status == "LISTEN" and c.laddr and c.laddr.port == port), None)
        return "another program" if pid is None else f"{psutil.Process(pid).name()!r} (pid {pid})"
    except psutil.Error:
        return "another program"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parsed(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
