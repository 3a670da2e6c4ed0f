"""The real Claude Code is woken when delegated work ends: by the watch command, and by the hook of the plugin."""

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.doubles.codex import codex_stand_in
from tests.doubles.waiting import until
from tests.flows.conftest import DELEGATE, ROOT, Terminal, claude_environment
from tests.flows.test_claude_code import claude_code

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

PLUGIN = ROOT / "plugin"
ANSWER = "All tests are green again."


def codex_that_waits(place: Path, go: Path) -> Path:
    """A Codex that answers once `go` is there."""
    return codex_stand_in(place, f"until [ -e {shlex.quote(str(go))} ]; do sleep 0.1; done", answer=ANSWER)


@pytest.fixture
def mine(small_repository: Path, tmp_path: Path) -> Path:
    """A worktree of the caller's own, in which the stand-in may see what the test leaves."""
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "mine")], cwd=small_repository, check=True)
    return tmp_path / "mine"


def environment(stack: Terminal, endpoint: ScriptedEndpoint, place: Path, codex: Path) -> dict[str, str]:
    """A session of its own, with the settings of our server among what it hands on."""
    (place / "claude-home").mkdir()
    return {
        **claude_environment(place / "claude-home", endpoint),
        "DELEGATE_HOME": str(stack.home),
        "DELEGATE_TEST_ISOLATION_ROOT": "/",
        "DELEGATE_CODEX_BIN": str(codex),
        "CODEX_HOME": str(place / "codex-home"),
        **stack.env,
    }


class Model:
    """What the scripted Claude says: it submits, perhaps starts the watch, ends its turn, and at its next turn, which
    nobody but the end of the work brings about, tells what it was woken with."""

    def __init__(self, tool: str, workdir: Path, *, starts_watch: bool) -> None:
        self._tool, self._workdir, self._starts_watch = tool, workdir, starts_watch
        self.waits = threading.Event()
        self.jobs: list[str] = []
        self.woken_with = ""

    def __call__(self, request: Request) -> Turn:
        if not request.tools:
            return Turn(text="ok")
        if request.turn == 0:
            return Turn(calls=(Call(self._tool, {"tasks": [{"task": "Fix it", "workdir": str(self._workdir)}]}),))
        if not self.jobs:
            answer = json.loads(request.tool_results[-1].partition("\n<system-reminder>")[0])
            self.jobs = [job["id"] for job in answer["jobs"]]
            if self._starts_watch:
                watch = {"command": answer["watch"], "run_in_background": True, "description": "wait"}
                return Turn(calls=(Call("Bash", watch),))
        if not self.waits.is_set():
            self.waits.set()
            return Turn(text="I wait.")
        self.woken_with = json.dumps(request.messages[-1])
        return Turn(text="I was woken.")


def claude_words(*more: str) -> list[str]:
    words = ["--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"]
    return [str(claude_code()), "-p", *words, *more]


def results(output: str) -> list[str]:
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [event["result"] for event in events if event["type"] == "result"]


def test_a_headless_session_that_runs_the_watch_in_the_background_is_woken(stack: Terminal, mine: Path, tmp_path: Path):
    model = Model("mcp__delegate__submit_codex", mine, starts_watch=True)
    with ScriptedEndpoint(model) as endpoint:
        env = environment(stack, endpoint, tmp_path, codex_that_waits(tmp_path, mine / "go"))
        config = tmp_path / "mcp.json"
        server = {"type": "stdio", "command": str(DELEGATE), "args": ["mcp"]}
        config.write_text(json.dumps({"mcpServers": {"delegate": server}}), encoding="utf-8")
        words = ("--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", "mcp__delegate__*", "Bash")
        with running(["Delegate it.", *words], mine, env) as session:
            until(model.waits.is_set, 90, "it waits")
            assert model.woken_with == ""
            (mine / "go").touch()
            output, _ = session.communicate(timeout=120)
    assert session.returncode == 0, output[-3000:]
    assert results(output)[-1] == "I was woken."
    assert "completed" in model.woken_with
    assert stack("show", model.jobs[0], "--json").json["answer"] == ANSWER


@contextmanager
def running(words: list[str], cwd: Path, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(
        claude_words(*words),
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if "--input-format" in words else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    with child:  # closes the pipes
        try:
            yield child
        finally:
            child.kill()


def test_the_hook_of_the_plugin_wakes_a_session_that_stays_open(stack: Terminal, mine: Path, tmp_path: Path):
    """It does nothing but submit: the plugin brings the server, and its hook waits beside the session."""
    model = Model("mcp__plugin_delegate_delegate__submit_codex", mine, starts_watch=False)
    with ScriptedEndpoint(model) as endpoint:
        env = environment(stack, endpoint, tmp_path, codex_that_waits(tmp_path, mine / "go"))
        words = ["--input-format", "stream-json", "--plugin-dir", str(PLUGIN)]
        with running([*words, "--allowedTools", "mcp__plugin_delegate_delegate__*"], mine, env) as session:
            lines = read_by_a_thread(session)
            say(session, "Delegate it.")
            until(model.waits.is_set, 90, "it waits")
            until(lambda: "I wait." in results("\n".join(lines())), 30, "its turn has ended")
            assert model.woken_with == ""
            (mine / "go").touch()
            until(lambda: "I was woken." in results("\n".join(lines())), 60, "it was woken")
            assert session.stdin is not None
            session.stdin.close()
            session.wait(30)
    assert f"{model.jobs[0]} DONE" in model.woken_with
    assert "Fix it" in model.woken_with
    assert [line for line in stack.processes() if "--hook" in line] == []


def say(session: "subprocess.Popen[str]", text: str) -> None:
    assert session.stdin is not None
    session.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n")
    session.stdin.flush()


def read_by_a_thread(session: "subprocess.Popen[str]") -> Callable[[], list[str]]:
    lines: list[str] = []

    def read() -> None:
        assert session.stdout is not None
        for line in session.stdout:
            lines.append(line)

    threading.Thread(target=read, daemon=True).start()
    return lambda: list(lines)


def test_the_plugin_is_a_valid_one_and_is_installed_as_its_page_says(tmp_path: Path):
    page = (ROOT / "docs" / "how-to" / "waking-claude-code.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    commands = [line.replace("/path/to/delegate-flows", str(ROOT)) for line in block.splitlines()]
    commands = [f"claude plugin validate --strict {folder}" for folder in (PLUGIN, ROOT)] + commands
    env = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    for command in [*commands, "claude plugin list"]:
        words = [str(claude_code()), *shlex.split(command)[1:]]
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "delegate@delegate-flows" in done.stdout
    assert "enabled" in done.stdout
