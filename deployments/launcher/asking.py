"""Asking a running launcher something, as `deployments.launcher` describes it."""

import json
import socket
from pathlib import Path
from typing import Any

_SECONDS = 5.0


def ask(path: Path, request: dict[str, Any]) -> Any:
    """Its answer. Raises OSError when nobody answers there, ValueError when the answer is none."""
    body = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path))
        connection.sendall(len(body).to_bytes(4, "big") + body)
        return json.loads(connection.makefile(encoding="utf-8").readline())
