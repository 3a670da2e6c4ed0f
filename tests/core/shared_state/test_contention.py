"""Twenty processes write at once, on both databases."""

import json
import os
import subprocess
import sys
from pathlib import Path

import contenders
import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform == "win32", reason="the contenders are forked, so that twenty of them start quickly")
def test_twenty_processes_at_once_get_what_one_after_the_other_would(url: str):
    done = subprocess.run(
        [sys.executable, contenders.__file__, url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    results = told["results"]
    assert [each for each in results if "error" in each] == []
    assert [each["_slots"] for each in results] == [contenders.ROUNDS] * contenders.PROCESSES
    assert 1 < told["most"] <= contenders.CEILING
    assert {each["_cooldown"] for each in results} == {49.0}
    assert sum(each["_probe"] for each in results) == 1
    assert {each["_halving"] for each in results} == {contenders.CEILING // 2}
    assert told["counted"] == 5 * contenders.PROCESSES
    assert sum(each["_checkout"] for each in results) == 1
    assert sum(each["_project"] for each in results) == contenders.CEILING
    assert told["left"] == []
