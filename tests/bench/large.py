"""Large things: what they add to the memory and the time of a run, beside their size and a bare pipe or bare git."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deployments.launcher.runs import launched_runs
from tests.bench.model import CHANGE, LONG_CHANGE_MB, model
from tests.bench.one import TASK
from tests.bench.rows import Row, ratio_at_most
from tests.bench.stacks import Bench, repository, stack, temporary_folder
from tests.bench.usage import most_resident_mb

_OUTPUT_MB, _TALK_MB = 1000, 100
_FLOOD = f"head -c {_OUTPUT_MB}000000 /dev/zero | tr '\\0' x"
_TALKER = f"""
[commands.talker]
argv = ["sh", "-c", "head -c {_TALK_MB}000000 /dev/zero | tr '\\\\0' x | fold -w 1000; printf 'hello\\n' > hello.txt"]
"""
_LOOK_SECONDS = 0.02
_BOUNDED = 0.5  # of what is large: it is read in parts, and never held as a whole


@dataclass(frozen=True)
class _Made:
    """How a delegation went; `size_mb` is what the large thing takes in its record."""

    seconds: float
    most_mb: float
    size_mb: float


def rows(quick: bool) -> Iterator[Row]:
    del quick  # there is no telling from small things
    small = _made("repair", "receipt.json")
    yield from _beside(f"a change of {LONG_CHANGE_MB} MB", small, _made("large_change", "patch.diff"), _bare_patch())
    flooded = _made("repair", "receipt.json", verify=_FLOOD, size_mb=_OUTPUT_MB)
    yield from _beside(f"a verify command that prints {_OUTPUT_MB} MB", small, flooded, _bare_pipe())
    talked = _made("repair", "receipt.json", agent="talker", size_mb=_TALK_MB)
    yield from _beside(f"a program that says {_TALK_MB} MB", small, talked, {})


def _beside(name: str, small: _Made, large: _Made, peers: Mapping[str, float]) -> Iterator[Row]:
    yield Row(
        name=f"{name}: memory of the run above a small one's", unit="MB", ours=large.most_mb - small.most_mb,
        peers={"its size": large.size_mb}, against="its size", aims=ratio_at_most(_BOUNDED),
    )  # fmt: skip
    yield Row(
        name=f"{name}: time above a small one's", unit="s", ours=large.seconds - small.seconds, peers=dict(peers),
        against=next(iter(peers), None), note=f"a small one {small.seconds:.1f} s",
    )  # fmt: skip


def _made(
    kind: str, file: str, *, verify: str = "true", agent: str | None = None, size_mb: float | None = None
) -> _Made:
    """By a model of that kind or a program, through the terminal. Raises RuntimeError when it is not verified."""
    with temporary_folder() as place, model(kind, place) as answering, stack(answering) as bench:
        bench.home.make(bench.home.config_file.parent)
        bench.home.config_file.write_text(_TALKER, encoding="utf-8")
        chosen = () if agent is None else ("--agent", agent)
        watch = _Watch(bench)
        began = time.monotonic()
        receipt = bench.delegate("run", TASK, "--repo", str(bench.repo), "--verify", verify, *chosen, seconds=900)
        seconds = time.monotonic() - began
        if receipt["outcome"] != "verified":
            raise RuntimeError(f"not verified: {receipt}")
        size = (bench.home.delegations / receipt["id"] / file).stat().st_size / 1e6
        return _Made(seconds, watch.ended(), size if size_mb is None else size_mb)


class _Watch:
    """The most that any flow process had in memory at once. The kernel keeps it; it is read until the process ends."""

    def __init__(self, bench: Bench) -> None:
        self._runs, self._most, self._stop = bench.home.stack / "runs", 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            for run in launched_runs(self._runs):
                self._most = max(self._most, most_resident_mb(run.pid))

    def ended(self) -> float:
        self._stop.set()
        self._thread.join()
        return self._most


def _bare_patch() -> dict[str, float]:
    with temporary_folder() as place:
        repo = repository(place / "repo")
        subprocess.run(["bash", "-c", CHANGE], cwd=repo, check=True)
        return {"bare git": _seconds(lambda: _bash("git add -A && git diff --cached --binary > ../patch", repo))}


def _bare_pipe() -> dict[str, float]:
    with temporary_folder() as place:
        return {"into a file": _seconds(lambda: _bash(f"{_FLOOD} > out", place))}


def _bash(command: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)


def _seconds(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
