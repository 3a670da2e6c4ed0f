"""Many cards over MCP on the real stack, and the commands of a report pasted into a shell."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import Implementation

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.settings import load_settings
from mcp_entry.mcp_server.server import build
from mcp_entry.verbs.service import Service
from tests.flows.conftest import Terminal, local_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300), pytest.mark.anyio]
VERIFY = "python -m pytest -q"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def repairs(request: Request) -> Turn:
    """Right; wrong for `card-wrong`; right at the second asking for `card-second`."""
    text = json.dumps(request.body)
    if request.turn or "card-question" in text:
        return Turn(text="Done.")
    new = "a * b" if "card-wrong" in text else "a + b"
    return Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": new}),))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(repairs) as serving:
        yield serving


async def test_a_client_submits_cards_polls_them_and_applies_one(
    stack: Terminal, small_repository: Path, endpoint: ScriptedEndpoint
):
    environ = stack.environment(local_model(endpoint.base_url))
    server = build(lambda: Service(load_settings(environ, small_repository)))
    cards = [
        {
            "id": "fix",
            "task": "card-fix: mend add()",
            "verify": VERIFY,
            "repo": str(small_repository),
            "tags": ["sums"],
        },
        {"id": "wrong", "task": "card-wrong: mend add()", "verify": VERIFY, "repo": str(small_repository)},
        {"id": "after", "task": "card-after: mend add()", "depends_on": ["wrong"], "repo": str(small_repository)},
        {"id": "why", "task": "card-question: why?", "expects": "answer"},
        {"id": "typo", "tusk": "x"},
    ]
    told: list[str | None] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with Client(server, client_info=Implementation(name="test", version="1")) as client:
        asked = content(await client.call_tool("submit_cards", {"cards": cards}))
        night = content(
            await client.call_tool(
                "poll_cards", {"night_id": asked["night_id"], "wait_seconds": 200}, progress_callback=progress
            )
        )
        fixed = next(card["delegation_id"] for card in night["cards"] if card["card"] == "fix")
        applied = content(await client.call_tool("apply_delegation", {"delegation_id": fixed}))

    assert {(each["card"], each["key"]) for each in asked["broken"]} == {("typo", "tusk"), ("typo", "task")}
    assert {card["card"]: card["state"] for card in night["cards"]} == {
        "fix": "verified", "wrong": "refuted", "after": "passed_over", "why": "answered", "typo": "broken",
    }  # fmt: skip
    assert (night["ended"], night["summary"]) == (True, "2 of 5 cards accepted")
    assert applied["files"] == ["adding.py"]
    assert any("begun so far" in (line or "") for line in told)


@pytest.mark.slow
def test_the_commands_of_a_report_do_what_they_say_when_they_are_pasted(
    stack: Terminal, small_repository: Path, tmp_path: Path, endpoint: ScriptedEndpoint
):
    cards = tmp_path / "cards"
    cards.mkdir()
    for name, more in (("fix", "attempts: 2"), ("wrong", ""), ("after", "depends_on: [wrong]")):
        text = f"---\nrepo: {small_repository}\nverify: {VERIFY}\n{more}\n---\ncard-{name}: mend add()\n"
        (cards / f"{name}.md").write_text(text, encoding="utf-8")
    (cards / "typo.md").write_text(f"---\nrepo: {small_repository}\nmodle: x\n---\nDo\n", encoding="utf-8")
    env = local_model(endpoint.base_url)
    report = stack("night", str(cards), "--wait", "--json", env=env, timeout=300).json
    lines = {line["card"]: line for line in report["lines"]}

    def pasted(card: str, name: str) -> "subprocess.CompletedProcess[str]":
        """In a shell that knows nothing of this home, somewhere else."""
        command = lines[card]["commands"][name]
        known = {key: value for key, value in stack.environment(env).items() if key != "DELEGATE_HOME"}
        return subprocess.run(
            ["sh", "-c", command], env=known, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
        )

    branches = git(small_repository, "branch", "--list", "delegate/*").splitlines()
    assert pasted("fix", "accept").returncode == 0
    assert "a + b" in (small_repository / "adding.py").read_text(encoding="utf-8")
    git(small_repository, "checkout", "--", "adding.py")
    assert pasted("wrong", "accept").returncode == 0, "--any-outcome is part of the command"
    git(small_repository, "checkout", "--", "adding.py")

    retried = pasted("wrong", "retry")
    assert retried.returncode == 1
    assert "refuted" in retried.stdout

    assert pasted("fix", "drop").returncode == 0
    left = git(small_repository, "branch", "--list", "delegate/*").splitlines()
    dropped = {f"delegate/{each['delegation_id']}" for each in lines["fix"]["tried"]}
    assert dropped & {line.strip() for line in left} == set()
    assert len(dropped & {line.strip() for line in branches}) == 2

    checked = pasted("typo", "check")
    assert (checked.returncode, "typo.md:3: modle is an unknown key" in checked.stderr) == (2, True)
    (cards / "typo.md").write_text(f"---\nrepo: {small_repository}\n---\ncard-fix: Do\n", encoding="utf-8")
    (cards / "wrong.md").write_text((cards / "wrong.md").read_text().replace("card-wrong", "card-right"))
    assert pasted("after", "retry").returncode == 0
    again = stack("night", "--show", report["night_id"], "--wait", "--json", timeout=250).json
    assert {line["card"]: line["group"] for line in again["lines"]} == {
        "fix": "verified", "wrong": "verified", "after": "verified", "typo": "unverified",
    }  # fmt: skip
    assert again["night_id"] == report["night_id"]
    assert [line["delegation_id"] for line in again["lines"] if line["card"] == "fix"] == [
        lines["fix"]["delegation_id"]
    ]


def content(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True, check=True).stdout
