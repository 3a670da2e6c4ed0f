"""The model client without a stack: reading a stream, and turns of the tool loop, beside httpx alone."""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from httpx_sse import EventSource

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import ChatClient, connect
from delegation.chat.messages import Message, Text
from delegation.process import run, shell
from delegation.request import Endpoint, Limits
from tests.bench.model import ROOT, TURNS, model
from tests.bench.rows import Row
from tests.bench.stacks import temporary_folder

_CHUNKS = 20_000


def rows(quick: bool) -> Iterator[Row]:
    yield _stream(3 if quick else 7)
    yield _loop(2 if quick else 5)


def _stream(rounds: int) -> Row:
    with _streaming() as base_url, connect(_endpoint(base_url), "key") as client:
        megabytes = len(_body()) / 1e6
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda: _reply(client),
            "httpx, bytes only": lambda: _bytes(base_url),
            "httpx-sse and json": lambda: _events(base_url),
        }
        spent = {name: [_seconds(way) for _ in range(rounds + 1)][1:] for name, way in ways.items()}
    median = {name: statistics.median(each) / megabytes for name, each in spent.items()}
    ours = median.pop("ours")
    return Row(
        name="reading a stream of small chunks", unit="s/MB", ours=ours, peers=median, against="httpx-sse and json",
        note=f"{1 / ours:.2f} MB/s",
    )  # fmt: skip


def _reply(client: ChatClient) -> None:
    asked = (Message("user", (Text("Say much."),)),)
    reply = client.reply(system="", messages=asked, tools=(), max_tokens=100_000, deadline=time.monotonic() + 60)
    assert reply.blocks


def _bytes(base_url: str) -> None:
    with httpx.Client(trust_env=False) as client, client.stream("POST", f"{base_url}/chat/completions", json={}) as got:
        for _ in got.iter_bytes():
            pass


def _events(base_url: str) -> None:
    with httpx.Client(trust_env=False) as client, client.stream("POST", f"{base_url}/chat/completions", json={}) as got:
        for event in EventSource(got).iter_sse():
            if event.data != "[DONE]":
                json.loads(event.data)


def _loop(rounds: int) -> Row:
    """One conversation of a hundred small tool calls; the peer sends the very same requests and uses no answer."""
    ours, bare = [], []
    with temporary_folder() as place, model("reading", place) as answering:
        for number in range(rounds):
            before = len(answering.asked_at())
            ours.append(_seconds(lambda n=number: _conversation(place / str(n), answering.base_url)) / TURNS)
            bodies = answering.bodies()[before:]
            bare.append(_seconds(lambda sent=bodies: _sent(answering.base_url, sent)) / len(bodies))
    mine, theirs = statistics.median(ours), statistics.median(bare)
    return Row(
        name="one turn of the tool loop, of a hundred", unit="s", ours=mine, peers={"httpx alone": theirs},
        against="httpx alone", note=f"{1 / mine:.0f} turns/s",
    )  # fmt: skip


def _conversation(place: Path, base_url: str) -> None:
    tree = place / "tree"
    tree.mkdir(parents=True)
    (tree / "README.md").write_text("A small file.\n", encoding="utf-8")
    toolbox = Toolbox(tree, lambda command, seconds: run(shell(command), cwd=tree, env={}, timeout_seconds=seconds))
    with connect(_endpoint(base_url), "key") as client:
        result = run_agent(
            model=client, agent=find_agent(None, tree, place / "none"), task="Read.", toolbox=toolbox,
            limits=Limits(max_turns=2 * TURNS, timeout_seconds=300, max_tokens=1000),
            trajectory=Trajectory(place / "trajectory.jsonl"), expects="answer", cancelled=threading.Event(),
            on_turn=lambda report: None,
        )  # fmt: skip
    assert result.failure is None, result.failure
    assert result.turns >= TURNS


def _sent(base_url: str, bodies: list[bytes]) -> None:
    with httpx.Client(trust_env=False) as client:
        for body in bodies:
            client.post(f"{base_url}/chat/completions", content=body, headers={"content-type": "application/json"})


def _endpoint(base_url: str) -> Endpoint:
    return Endpoint(
        alias="bench", base_url=base_url, format="openai_chat", model="bench", bucket="b", quota_pool="q", lane="local"
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _body() -> bytes:
    def frame(delta: dict[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    words = (frame({"content": f"word{number} "}) for number in range(_CHUNKS))
    return "".join((*words, frame({}, "stop"), "data: [DONE]\n\n")).encode()


@contextmanager
def _streaming() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.chat"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"
        finally:
            child.terminate()


class _Stream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def main() -> None:
    """Serve the stream until ended: the other end of the measurement, in a process of its own."""
    _Stream.body = _body()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stream)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
