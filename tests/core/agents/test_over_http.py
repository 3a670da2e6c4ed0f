"""The same agent over real HTTP, in each wire format, and once inside real walls."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.confinement import Walls
from delegation.confinement.choice import find_confiner
from delegation.process import child_environment, make_private_folders, run, shell
from delegation.request import Endpoint, Limits, WireFormat
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn

SCRIPT = [
    Turn(text="I look.", calls=(Call("read_file", {"path": "a.py"}), Call("list_files", {}))),
    Turn(calls=(Call("edit_file", {"path": "a.py", "old_text": "1", "new_text": "2"}),)),
    Turn(calls=(Call("write_file", raw='{"path": "a.py", "content": "cut'),)),
    Turn(calls=(Call("run_bash", {"command": "cat a.py"}),)),
    Turn(text="Changed it."),
]


@pytest.fixture
def work(tmp_path: Path, root: Path, toolbox: Toolbox) -> Callable[..., AgentResult]:
    def working(base_url: str, wire: WireFormat, toolbox: Toolbox = toolbox) -> AgentResult:
        endpoint = Endpoint(
            alias="s",
            base_url=base_url,
            format=wire,
            model="s",
            bucket="s",
            quota_pool="s",
            lane="local",
            context_tokens=32_000,
        )
        with connect(endpoint, "key") as model:
            return run_agent(
                model=model,
                agent=find_agent(None, root, tmp_path),
                task="Change a.py.",
                toolbox=toolbox,
                limits=Limits(max_turns=10, timeout_seconds=60, max_tokens=2000),
                trajectory=Trajectory(tmp_path / f"{wire}.jsonl"),
                expects="change",
                cancelled=threading.Event(),
                on_turn=lambda report: None,
            )

    return working


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic_messages", "openai_responses"])
def test_a_task_has_the_same_course_in_every_wire_format(work, root: Path, wire: WireFormat):
    (root / "a.py").write_text("x = 1\n")
    with ScriptedEndpoint(SCRIPT) as server:
        result = work(server.base_url, wire)
    assert (root / "a.py").read_text() == "x = 2\n"
    assert (result.stop_reason, result.turns, result.tool_calls, result.malformed_calls, result.last_bash_exit) == (
        "submitted",
        5,
        5,
        1,
        0,
    )
    assert (result.claim, result.usage.requests) == ("Changed it.", 5)
    assert len(server.calls) == 5
    last = server.calls[-1].tool_results
    assert last[0].startswith("[lines 1-1 of 1]")
    assert last[-1] == "x = 2\n[exit code: 0]"


def test_inside_walls_the_shell_cannot_do_what_the_file_tools_refuse(work, root: Path, tmp_path: Path):
    confiner = find_confiner("auto")
    if confiner is None:
        pytest.skip("no confinement on this machine")
    home, temp, outside = tmp_path / "h", tmp_path / "t", tmp_path / "outside"
    make_private_folders(home=home, temp=temp)
    outside.mkdir()
    (outside / "secret").write_text("hush")
    walls = Walls(writable=(root, temp, home), network=False)
    env = child_environment(home=home, temp=temp)
    confined = Toolbox(
        root,
        lambda command, seconds: run(
            shell(command), cwd=root, env=env, timeout_seconds=seconds, confiner=confiner, walls=walls
        ),
    )
    (root / "out").symlink_to(outside)
    script = [
        Turn(calls=(Call("run_bash", {"command": f"echo x > {outside}/made; echo y > inside"}),)),
        Turn(
            calls=(Call("search_files", {"pattern": "y", "path": "inside"}), Call("read_file", {"path": "out/secret"}))
        ),
        Turn(text="done"),
    ]
    with ScriptedEndpoint(script) as server:
        work(server.base_url, "openai_chat", confined)
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert server.calls[-1].tool_results[1] == "inside:1:y"
    assert "refused" in server.calls[-1].tool_results[2]
