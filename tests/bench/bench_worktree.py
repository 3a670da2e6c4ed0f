"""Worktree, collect and remove on a repository of 50,000 files, beside bare git in the same run.

`python -m tests.bench.bench_worktree [--files N] [--rounds N] [--json]`. Not part of `make test`. The ratio is what
counts: seconds are this machine's and this moment's.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from delegation.checkout.patch import collect
from delegation.checkout.worktree import Worktree, create, remove
from delegation.home import Home
from delegation.ids import new_id
from tests.bench.machine import system

_FILES_PER_FOLDER = 100
_EDITED = 20


@dataclass
class Step:
    """Seconds of one step, ours and git's, one entry a round; `cpu` counts this process and its children."""

    name: str
    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    ours_cpu: list[float] = field(default_factory=list)
    bare_cpu: list[float] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        ours, bare = statistics.median(self.ours), statistics.median(self.bare)
        cpu = statistics.median(self.ours_cpu), statistics.median(self.bare_cpu)
        return {
            "step": self.name, "ours_seconds": round(ours, 2), "git_seconds": round(bare, 2),
            "ratio": round(ours / bare, 2), "ours_cpu": round(cpu[0], 2), "git_cpu": round(cpu[1], 2),
            "cpu_ratio": round(cpu[0] / max(cpu[1], 0.001), 2),
        }  # fmt: skip


def generated(folder: Path, files: int) -> Path:
    """A repository with one commit of so many small files, a hundred to a folder."""
    for number in range(files):
        path = folder / f"package_{number // (_FILES_PER_FOLDER * 20):03d}" / f"part_{number // _FILES_PER_FOLDER:04d}"
        if number % _FILES_PER_FOLDER == 0:
            path.mkdir(parents=True)
        lines = "".join(f"value_{number}_{line} = {number * line}\n" for line in range(30))
        (path / f"module_{number:06d}.py").write_text(lines, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=B", "-c", "user.email=b@example.invalid", "commit", "-q", "-m", "generated")
    return folder


def edit(tree: Path) -> None:
    """What an agent would leave: some files edited, one removed, two new."""
    modules = sorted((tree / "package_000").rglob("*.py"))
    for path in modules[:_EDITED]:
        path.write_text(path.read_text(encoding="utf-8") + "edited = True\n", encoding="utf-8")
    modules[-1].unlink()
    (tree / "new_module.py").write_text("new = 1\n", encoding="utf-8")
    (tree / "package_000" / "other.py").write_text("new = 2\n", encoding="utf-8")


def measured(repo: Path, work: Path, rounds: int) -> list[Step]:
    """The three steps and their sum; ours and git's take turns in going first."""
    steps = [Step("worktree"), Step("collect / diff"), Step("remove"), Step("all three")]
    for number in range(rounds):
        both = [(_ours, True), (_bare, False)]
        for run, is_ours in both if number % 2 == 0 else reversed(both):
            os.sync()  # what the one before has written is not the next one's to wait for
            times = run(repo, work / f"{'ours' if is_ours else 'bare'}-{number}")
            for step, (seconds, cpu) in zip(steps, [*times, _sum(times)], strict=True):
                (step.ours if is_ours else step.bare).append(seconds)
                (step.ours_cpu if is_ours else step.bare_cpu).append(cpu)
        print(
            f"round {number + 1} of {rounds}",
            *(f"{each.name} {each.ours[-1]:.1f}/{each.bare[-1]:.1f}" for each in steps),
            file=sys.stderr,
        )
    return steps


def _ours(repo: Path, place: Path) -> list[tuple[float, float]]:
    home, id_ = Home(place, place / "config" / "delegate.toml"), new_id("dg")
    made: list[Worktree] = []

    def make() -> None:
        made.append(
            create(
                delegation_id=id_, repo=repo, base_commit=None, workdir=".", isolation="worktree", include_dirty=False,
                place=home.worktrees / id_, home=home,
            )
        )  # fmt: skip

    first = timed(make)
    edit(Path(made[0].root))
    second = timed(lambda: collect(made[0], out=place / "patch.diff", message="bench"))
    third = timed(lambda: remove(made[0]))
    assert (place / "patch.diff").stat().st_size > 1000
    assert not Path(made[0].root).exists()
    return [first, second, third]


def _bare(repo: Path, place: Path) -> list[tuple[float, float]]:
    place.mkdir(parents=True)
    first = timed(lambda: git(repo, "worktree", "add", "-q", "--detach", str(place / "tree")))
    edit(place / "tree")
    second = timed(lambda: (place / "patch.diff").write_bytes(git(place / "tree", "diff", "--binary", "HEAD")))
    third = timed(lambda: git(repo, "worktree", "remove", "--force", str(place / "tree")))
    return [first, second, third]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    begun, cpu = time.monotonic(), _cpu_seconds()
    work()
    return time.monotonic() - begun, _cpu_seconds() - cpu


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _sum(times: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(seconds for seconds, _ in times), sum(cpu for _, cpu in times)


def git(repo: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="delegate-bench-") as folder:
        repo = generated(Path(folder) / "repo", asked.files)
        rows = [step.row() for step in measured(repo, Path(folder) / "work", asked.rounds)]
    about = {
        "date": datetime.now(UTC).date().isoformat(), "files": asked.files, "rounds": asked.rounds,
        "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "system": system(),
        "git": git(Path.cwd(), "--version").decode().strip(),
    }  # fmt: skip
    if asked.json:
        print(json.dumps({**about, "rows": rows}))
        return 0
    print(" ".join(f"{name}={value}" for name, value in about.items()))
    print(f"{'step':<16}{'ours s':>8}{'git s':>8}{'ratio':>8}{'ours cpu':>10}{'git cpu':>9}{'ratio':>8}")
    for row in rows:
        print(
            f"{row['step']:<16}{row['ours_seconds']:>8}{row['git_seconds']:>8}{row['ratio']:>8}"
            f"{row['ours_cpu']:>10}{row['git_cpu']:>9}{row['cpu_ratio']:>8}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
