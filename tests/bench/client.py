"""`delegate mcp`, or any other MCP server on stdio, driven line by line."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class McpClient:
    """One call after the other; notifications are passed over."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self.child, self._next = child, 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one request. Raises RuntimeError for an error and for a server that ended."""
        self._next += 1
        self._write({"method": method, "id": self._next, "params": params})
        assert self.child.stdout is not None
        for line in self.child.stdout:
            message = json.loads(line)
            if message.get("id") == self._next:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
        raise RuntimeError(f"{method}: the server ended")

    def greet(self) -> None:
        info = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self._write({"method": "notifications/initialized", "params": {}})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a tool. Raises RuntimeError with what a failed one said."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {result['content']}")
        return result.get("structuredContent") or json.loads(result["content"][0]["text"])

    def _write(self, message: dict[str, Any]) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.child.stdin.flush()


@contextmanager
def mcp_server(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[McpClient]:
    """A server of that command, greeted; it ends with the block."""
    with subprocess.Popen(
        list(argv), env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        client = McpClient(child)
        try:
            client.greet()
            yield client
        finally:
            assert child.stdin is not None
            child.stdin.close()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()


def seconds_to_tools(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> float:
    """From the start of the program to the answer of the first tools/list."""
    began = time.monotonic()
    with mcp_server(argv, env, cwd) as client:
        client.ask("tools/list")
        return time.monotonic() - began
