"""Benchmarks that were there before, as rows: each is still a program of its own with more to tell."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from tests.bench import bench_slots, bench_worktree
from tests.bench.model import ROOT
from tests.bench.rows import Row, ratio_at_most
from tests.bench.stacks import temporary_folder


def worktree(quick: bool) -> Iterator[Row]:
    """Worktree, collect and remove beside bare git."""
    for files in (200, 2_000) if quick else (1_000, 10_000, 100_000):
        with temporary_folder() as folder:
            repo = bench_worktree.generated(folder / "repo", files)
            steps = bench_worktree.measured(repo, folder / "work", 3)
        found = steps[-1].row()
        yield Row(
            name=f"worktree, collect and remove, {files:,} files", unit="s", ours=_number(found["ours_seconds"]),
            peers={"bare git": _number(found["git_seconds"])}, against="bare git",
            note=", ".join(f"{each.name} {each.row()['ratio']}" for each in steps[:-1]),
        )  # fmt: skip


def slots(quick: bool) -> Iterator[Row]:
    """Conversations through an endpoint that serves four at a time."""
    conversations, turns = (8, 3) if quick else (24, 6)
    ways = {"plain retry": bench_slots.plain}
    if bench_slots.ROUTER.exists():
        ways["LiteLLM router"] = bench_slots.router
    peers = {name: way(conversations, turns) for name, way in ways.items()}
    ours = bench_slots.ours(conversations, turns)
    yield Row(
        name=f"{conversations} conversations of {turns} turns, endpoint takes 4 at once", unit="s", ours=ours.seconds,
        peers={name: each.seconds for name, each in peers.items()}, against="plain retry",
    )  # fmt: skip
    yield Row(
        name="refusals (429) on the way", unit="requests", ours=float(ours.refused),
        peers={name: float(each.refused) for name, each in peers.items()}, against="plain retry",
        aims=ratio_at_most(1.0),
    )  # fmt: skip


def packing(quick: bool) -> Iterator[Row]:
    """A real tree of 10,000 files, by us, repomix and files-to-prompt (those that are installed)."""
    words = ["--files", "1000" if quick else "10000", "--rounds", "1" if quick else "3"]
    found = {each["packer"]: each for each in _told("bench_packing", *words)["rows"]}
    ours = found.pop("ours, all of it")
    peers = {name: each for name, each in found.items() if not name.startswith("ours")}
    speed = f"{ours['mb_per_second']} MB/s; {found['ours, usual caps']['seconds']} s under the usual caps"
    yield Row(
        name=f"packing {words[1]} files", unit="s", ours=ours["seconds"],
        peers={name: each["seconds"] for name, each in peers.items()}, against=next(iter(peers), None),
        note=speed if peers else f"{speed}; no other packer: run `make programs-bench`",
    )  # fmt: skip
    yield Row(
        name="planted secrets in the pack", unit="secrets", ours=float(ours["leaked"]),
        peers={name: float(each["leaked"]) for name, each in peers.items()}, against=next(iter(peers), None),
    )  # fmt: skip


def reading(quick: bool) -> Iterator[Row]:
    """What a question adds to a bare HTTP call, alone and as a flow run of a running stack."""
    rounds = "5" if quick else "30"
    for stack, words in (("no stack", []), ("stack up", ["--stack"])):
        found = _told("bench_reading", "--rounds", rounds, *words)
        for way, name in (("in_process", "in process"), ("mcp", "through delegate mcp"), ("program", "as a program")):
            yield Row(
                name=f"query, {name}, {stack}", unit="s", ours=found[way]["median_ms"] / 1000,
                peers={"bare HTTP call": found["bare"]["median_ms"] / 1000}, against="bare HTTP call",
            )  # fmt: skip


def _told(module: str, *words: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", f"tests.bench.{module}", *words, "--json"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
