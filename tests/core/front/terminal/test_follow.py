"""`delegate show ID --follow`: every turn as it happens, and the receipt at the end."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from front import ROOT, Front

from delegation.receipt import Cost, Usage
from delegation.records import Progress


@pytest.fixture
def following(stacked: Front) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    running: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "mcp_entry", "show", *words],
                cwd=stacked.repo,
                env={**stacked.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


def test_each_turn_is_shown_when_it_is_over_and_then_the_receipt(
    stacked: Front, following: Callable[..., subprocess.Popen[str]]
):
    delegation_id = stacked.service().submit(stacked.card()).id
    shown = following(delegation_id, "--follow")
    assert shown.stderr is not None
    for turn, tool in ((1, "read_file"), (2, "edit_file"), (3, "run_bash")):
        progress = Progress(step="agent", turn=turn, max_turns=25, detail=f"last {tool}")
        stacked.records.write_status(delegation_id, progress)
        while (line := shown.stderr.readline()) and "agent" not in line:
            pass
        assert line == f"delegate: {delegation_id} agent {turn}/25: last {tool}\n"
    used, cost = Usage(input_tokens=1, output_tokens=1, requests=3), Cost(amount_usd=None, kind="flat_plan")
    stacked.end(delegation_id, "verified", usage=used, cost=cost, turns=3, max_turns=25)
    out, _ = shown.communicate(timeout=30)
    assert shown.returncode == 0
    assert out.startswith("verified")
    assert "turns      3 of 25" in out
    assert "[tokens: 1 prompt / 1 completion / 2 total (flat plan)]" in out


def test_as_json_only_the_receipt_is_on_stdout(stacked: Front, following: Callable[..., subprocess.Popen[str]]):
    delegation_id = stacked.service().submit(stacked.card()).id
    stacked.records.write_status(delegation_id, Progress(step="prepare"))
    shown = following(delegation_id, "--follow", "--json")
    assert shown.stderr is not None
    assert delegation_id in shown.stderr.readline()
    stacked.end(delegation_id, "refuted")
    out, _ = shown.communicate(timeout=30)
    assert (shown.returncode, json.loads(out)["outcome"]) == (0, "refuted")
