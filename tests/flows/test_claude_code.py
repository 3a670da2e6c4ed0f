"""The real Claude Code, headless, with a scripted Anthropic endpoint: it calls our server and gets a verified patch."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.flows.conftest import DELEGATE, ROOT, Terminal, claude_environment, local_model
from tests.flows.test_delegation import BROKEN, REPAIRED, VERIFY, editing

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

TOOL = "mcp__delegate__delegate_to_local_agent"


def claude_code() -> Path:
    found = sorted((ROOT / ".programs/claude-code/node_modules/@anthropic-ai").glob("claude-code-*/claude"))
    assert found, "run `make programs` first"
    return found[0]


def orchestrator(workdir: Path):
    """What the scripted Claude says: delegate once, then report. Requests without tools are titles and the like."""

    def turn(request: Request) -> Turn:
        if not request.tools:
            return Turn(text="ok")
        if request.turn == 0:
            call = {"task": "Fix the failing tests", "workdir": str(workdir), "verify": VERIFY}
            return Turn(calls=(Call(TOOL, call),))
        return Turn(text="Delegated.")

    return turn


def headless(project: Path, endpoint: ScriptedEndpoint, stack: Terminal, model: dict[str, str]) -> list[dict[str, Any]]:
    """Events of one `claude -p` run whose only MCP server is ours."""
    home = project.parent / "claude-home"
    home.mkdir()
    config = home / "mcp.json"
    server = {"type": "stdio", "command": str(DELEGATE), "args": ["mcp"]}
    environment = {"DELEGATE_HOME": str(stack.home), "DELEGATE_TEST_ISOLATION_ROOT": "/", **stack.env, **model}
    config.write_text(json.dumps({"mcpServers": {"delegate": {**server, "env": environment}}}))
    done = subprocess.run(
        [
            str(claude_code()),
            "-p",
            "Delegate the repair.",
            "--output-format",
            "stream-json",
            "--verbose",
            "--mcp-config",
            str(config),
            "--strict-mcp-config",
            "--model",
            "claude-sonnet-4-5",
            "--allowedTools",
            "mcp__delegate__*",
        ],
        cwd=project,
        env=claude_environment(home, endpoint),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_claude_code_delegates_and_gets_a_verified_patch(stack: Terminal, cachetools: Path):
    script = editing("src/cachetools/__init__.py", BROKEN, REPAIRED)
    with ScriptedEndpoint(orchestrator(cachetools)) as claude, ScriptedEndpoint(script) as worker:
        events = headless(cachetools, claude, stack, local_model(worker.base_url))
    result = _tool_result(events)
    assert not result.get("is_error"), result
    delegation = json.loads(result["content"] if isinstance(result["content"], str) else result["content"][0]["text"])
    assert delegation["outcome"] == "verified"
    assert delegation["patch"]["files"] == 1
    assert events[-1]["result"] == "Delegated."
    shown = stack("show", delegation["delegation_id"], "--json").json
    assert shown["verification"]["verdict"] == "passed"
    assert BROKEN in (cachetools / "src/cachetools/__init__.py").read_text()


def _tool_result(events: list[dict[str, Any]]) -> dict[str, Any]:
    for event in events:
        content = event.get("message", {}).get("content") if event.get("type") == "user" else None
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result":
                return block
    raise AssertionError(f"no tool result in {json.dumps(events)[:3000]}")
