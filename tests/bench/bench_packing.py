"""Packing a real tree of 10,000 files: speed, and what is leaked of thirty planted secrets, beside other packers.

`python -m tests.bench.bench_packing [--files N] [--tree FOLDER] [--rounds N] [--json]`. Not part of `make test`. The
tree is a folder of the pinned programs, LiteLLM with all that it needs: sources, texts, data and pictures as they were
published. The other packers are pinned in `programs/packers` (`make programs-bench`); one that is not installed takes
no part. Every packer runs as a process of its own, on the same tree with the same planted files, otherwise with its
own defaults; the caps of ours are lifted where it says "all of it".
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.machine import system
from tests.doubles.planted_secrets import planted

ROOT = Path(__file__).parents[2]
_OURS = """
import sys
from pathlib import Path
from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered
caps = {} if sys.argv[3] == "usual" else {"max_file_bytes": 1 << 40, "max_total_bytes": 1 << 40}
packed = pack(Path(sys.argv[1]), FileWalker(**caps))
Path(sys.argv[2]).write_text(rendered(packed), encoding="utf-8")
"""
_PROGRAMS = ROOT / ".programs"
_TREE = "litellm/lib/python3*/site-packages"
_REPOMIX = _PROGRAMS / "packers" / "node_modules" / ".bin" / "repomix"
_FILES_TO_PROMPT = _PROGRAMS / "packers" / "venv" / "bin" / "files-to-prompt"
_COMPILED = (".pyc", ".so")  # of one machine; sources everywhere are the same


@dataclass
class Packer:
    """One program and its rounds."""

    name: str
    argv: tuple[str, ...]
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    output_bytes: int = 0
    leaked: list[str] = field(default_factory=list)

    def row(self, size: int) -> dict[str, object]:
        wall, cpu = statistics.median(self.seconds), statistics.median(self.cpu_seconds)
        return {
            "packer": self.name, "seconds": round(wall, 2), "cpu_seconds": round(cpu, 2),
            "mb_per_second": round(size / 1e6 / wall, 1), "mb_per_cpu_second": round(size / 1e6 / cpu, 1),
            "output_mb": round(self.output_bytes / 1e6, 1), "leaked": len(self.leaked), "leaked_from": self.leaked,
        }  # fmt: skip


def real_tree() -> Path:
    """Raises SystemExit where it is not installed."""
    found = next(iter(sorted(_PROGRAMS.glob(_TREE))), None)
    if found is None:
        raise SystemExit(f"no {_TREE} in {_PROGRAMS}: run `make programs-real`, or name a folder with --tree")
    return found


def copied(tree: Path, root: Path, files: int) -> list[Path]:
    """The first so many files of the tree by name."""
    wanted = (path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink())
    chosen = [path for path in wanted if not path.name.endswith(_COMPILED) and ".so." not in path.name]
    copies: list[Path] = []
    for path in chosen[:files]:
        copy = root / path.relative_to(tree)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        copies.append(copy)
    return copies


def planted_in(root: Path) -> None:
    """The secrets among the files, and a repository that tracks everything."""
    for each in planted():
        path = root / "planted" / each.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each.content, encoding="utf-8")
    git = ["git", "-c", "user.name=B", "-c", "user.email=b@example.invalid", "-C", str(root)]
    for words in (["init", "-q"], ["add", "-f", "-A"], ["commit", "-qm", "tree"]):
        subprocess.run([*git, *words], check=True, capture_output=True)


def run(packer: Packer, root: Path, out: Path) -> None:
    out.unlink(missing_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun, cpu = time.monotonic(), used.ru_utime + used.ru_stime
    done = subprocess.run(packer.argv, cwd=root, env=environ, capture_output=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"{packer.name} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    packer.seconds.append(time.monotonic() - begun)
    packer.cpu_seconds.append(used.ru_utime + used.ru_stime - cpu)
    text = out.read_text(encoding="utf-8", errors="replace")
    packer.output_bytes = out.stat().st_size
    packer.leaked = [each.path for each in planted() if any(value in text for value in each.values)]


def packers(root: Path, out: Path) -> list[Packer]:
    ours = (sys.executable, "-P", "-c", _OURS, str(root), str(out))  # the tree may hold modules of any name
    found = [Packer("ours, all of it", (*ours, "all")), Packer("ours, usual caps", (*ours, "usual"))]
    if _REPOMIX.exists():
        found.append(Packer("repomix", (str(_REPOMIX), "--quiet", "--style", "plain", "-o", str(out))))
    if _FILES_TO_PROMPT.exists():
        found.append(Packer("files-to-prompt", (str(_FILES_TO_PROMPT), ".", "-n", "-o", str(out))))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tree", type=Path, help="another folder; its files are copied")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="delegate-bench-") as folder:
        root, out = Path(folder) / "tree", Path(folder) / "out.txt"
        files = copied(asked.tree or real_tree(), root, asked.files)
        size = sum(path.stat().st_size for path in files)
        planted_in(root)
        taking_part = packers(root, out)
        for number in range(asked.rounds):
            for packer in taking_part if number % 2 == 0 else reversed(taking_part):
                run(packer, root, out)
                print(
                    f"round {number + 1} of {asked.rounds}: {packer.name} {packer.seconds[-1]:.1f} s", file=sys.stderr
                )
    rows = [packer.row(size) for packer in taking_part]
    about = {
        "date": datetime.now(UTC).date().isoformat(), "files": len(files), "mb": round(size / 1e6, 1),
        "planted": len(planted()), "rounds": asked.rounds, "cpus": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
        "system": system(),
    }  # fmt: skip
    if asked.json:
        print(json.dumps({**about, "rows": rows}))
        return 0
    print(" ".join(f"{name}={value}" for name, value in about.items()))
    print(f"{'packer':<18}{'s':>8}{'cpu s':>8}{'MB/s':>8}{'MB/cpu s':>10}{'out MB':>8}{'leaked':>8}")
    for row in rows:
        print(
            f"{row['packer']:<18}{row['seconds']:>8}{row['cpu_seconds']:>8}{row['mb_per_second']:>8}"
            f"{row['mb_per_cpu_second']:>10}{row['output_mb']:>8}{row['leaked']:>8}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
