"""150 turns over real HTTP in a process of their own: what the process holds, and what each request carries."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.agents.trajectory import Trajectory
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[3]
TURNS = 150
CONTEXT_TOKENS = 32_000
AGENT = """
import json, sys, threading
from pathlib import Path
import psutil
from delegation.agents.loop import run_agent
from delegation.agents.lookup import find_agent
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.request import Endpoint, Limits

base_url, root, log = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
endpoint = Endpoint(
    alias="s", base_url=base_url, format="openai_chat", model="s", bucket="s", quota_pool="s", lane="local",
    context_tokens={context_tokens},
)
resident = []
with connect(endpoint, "key") as model:
    result = run_agent(
        model=model, agent=find_agent(None, root, root), task="Read it all.", toolbox=Toolbox(root, None),
        limits=Limits(max_turns={turns}, timeout_seconds=120, max_tokens=1000), trajectory=Trajectory(log),
        expects="answer", cancelled=threading.Event(),
        on_turn=lambda report: resident.append(psutil.Process().memory_info().rss),
    )
print(json.dumps([result.stop_reason, result.turns, resident]))
"""


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str], None]:
    return lambda text: request.node.user_properties.append(("measured", text))


def test_150_turns_that_read_megabytes_stay_in_bounded_memory_and_bounded_requests(
    root: Path, tmp_path: Path, record: Callable[[str], None]
):
    for number in range(TURNS):
        lines = (f"this is line {line} of the file with number {number}\n" for line in range(900))
        (root / f"f{number}").write_text("".join(lines))

    def turn(request: Request) -> Turn:
        number, usage = len(server.calls) - 1, {"input": sent_bytes(request) // 4, "output": 20}
        calls = (Call("read_file", {"path": f"f{number}"}),) if number < TURNS - 1 else ()
        return Turn(text="" if calls else "That was all.", calls=calls, usage=usage)

    with ScriptedEndpoint(turn) as server:
        program = AGENT.format(context_tokens=CONTEXT_TOKENS, turns=TURNS)
        words = [sys.executable, "-c", program, server.base_url, str(root), str(tmp_path / "log.jsonl")]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    stop_reason, turns, resident = json.loads(done.stdout)
    assert (stop_reason, turns, len(server.calls)) == ("answered", TURNS, TURNS)
    largest, log_bytes = max(map(sent_bytes, server.calls)), (tmp_path / "log.jsonl").stat().st_size
    assert log_bytes > 10 * 4 * CONTEXT_TOKENS, "too little was read to show anything"
    assert largest // 4 < CONTEXT_TOKENS - 1000
    assert max(resident) - resident[9] < 12e6
    record(
        f"{TURNS} turns, log of {log_bytes / 1e6:.1f} MB: largest request {largest / 1e3:.0f} KB, resident "
        f"{resident[9] / 1e6:.0f} MB after 10 turns, at most {max(resident) / 1e6:.0f} MB"
    )


def sent_bytes(request: Request) -> int:
    return int(request.headers["content-length"])


def test_the_outline_of_a_large_log_needs_little_memory(tmp_path: Path):
    path = tmp_path / "trajectory.jsonl"
    usage = {"input_tokens": 1, "output_tokens": 1, "cached_tokens": None, "requests": 1}
    with path.open("w") as log:
        for number in range(200):
            event = {"seq": number, "time": "2026-11-30T12:00:00+00:00", "type": "reply", "usage": usage, "cost": None}
            log.write(json.dumps({**event, "message": "m" * 100_000}) + "\n")
    tracemalloc.start()
    try:
        outline = Trajectory(path).outline()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [event["seq"] for event in outline] == list(range(200))
    assert peak < path.stat().st_size / 20
