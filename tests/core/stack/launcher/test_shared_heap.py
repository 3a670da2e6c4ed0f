"""A fork leaves more pages shared where nobody counts references to what was there before it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.launcher import shared_heap

# A heap of many objects; a child that uses a part of them all over it, and tells what memory became its own.
_PROGRAM = """
import gc, importlib.util, json, os, pathlib, sys
spec = importlib.util.spec_from_file_location("shared_heap", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
class Point:
    def __init__(self, number): self.number = number
heap = [[Point(n), str(n), {"n": [n]}, float(n)] for n in range(30_000)]
shared = module.share_heap() if sys.argv[2] == "shared" else 0
gc.collect()
gc.freeze()
if os.fork():
    os.wait()
else:
    used = [point for point, *_ in heap[::10]] + [found["n"] for _, _, found, _ in heap[::10]]
    made = json.loads(json.dumps({"points": [each.number for each in used[:10]], "all": len(used)}))
    rollup = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty"))
    print(json.dumps({"shared": shared, "own_kb": own, **made}), flush=True)
    os._exit(0)
"""


def newer_pythons() -> list[str]:
    """Those beside this one and those on the PATH that know immortal objects."""
    beside = sorted(Path(sys.base_prefix).parent.glob("3.1[2-9]*/bin/python"))
    named = [shutil.which(f"python3.{minor}") for minor in range(12, 20)]
    return [
        each for each in dict.fromkeys([sys.executable, *map(str, beside), *filter(None, named)]) if _is_newer(each)
    ]


def _is_newer(python: str) -> bool:
    """A name on the PATH may also lead to a program that starts another one, or none."""
    words = [python, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0


def told(python: str, how: str) -> dict[str, int]:
    words = [python, "-I", "-c", _PROGRAM, shared_heap.__file__, how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells what memory is whose")
def test_a_fork_copies_less_of_what_it_only_uses():
    pythons = newer_pythons()
    if not pythons:
        pytest.skip("no Python from 3.12 on beside this one or on the PATH")
    for python in pythons:
        usual, shared = told(python, "usual"), told(python, "shared")
        assert usual["shared"] == 0
        assert shared["shared"] > 120_000, python
        assert shared["points"] == usual["points"] == list(range(0, 100, 10)), python
        assert shared["own_kb"] < 0.4 * usual["own_kb"], python


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this one knows immortal objects")
def test_an_older_interpreter_is_left_as_it_is():
    thing = object()
    before = sys.getrefcount(thing)
    assert (shared_heap.share_heap(), sys.getrefcount(thing)) == (0, before)
