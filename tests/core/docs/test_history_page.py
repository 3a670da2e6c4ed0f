"""Every command of the page about history, run as it stands there."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from front import ROOT, Front, Ran

Call = Callable[..., Ran]
PAGE = (ROOT / "docs" / "how-to" / "history.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
PATCH = (
    b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
    b"@@ -1,2 +1,2 @@\n def double(x):\n-    return x + x\n+    return 3 * x\n"
)


def test_the_page_has_its_commands():
    assert len(COMMANDS) >= 14
    assert {line.split()[1] for line in COMMANDS} == {"list", "show", "stats", "export", "rerun", "prune"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_does_what_it_says(stacked: Front, call: Call, command: str):
    started = stacked.service().submit(stacked.card("Repair the median", verify="pytest -q"))
    run = {"verdict": "failed", "exit_code": 1, "seconds": 1.0, "output_tail": "1 failed"}
    judged = {"command": "pytest -q", "verdict": "failed", "base": run, "candidate": run}
    receipt = stacked.end(started.id, "refuted", patch=PATCH, verification=judged)
    words = shlex.split(command)
    target = words[words.index(">") + 1] if ">" in words else None
    ran = call(*words[1 : words.index(">") if target else None])

    assert ran.code == 0, ran.stderr
    match words[1], words[2:]:
        case "list", [*_, "--parent", "1"]:
            assert "no delegation fits" in ran.stderr
        case "list", ["--model", *_]:
            assert "no delegation fits" in ran.stderr  # it is another model's
        case "list" | "show", _:
            assert receipt.id in ran.stdout
            assert "Repair the median" in ran.stdout
        case "stats", [*_, "--json"]:
            assert '"delegations":1' in ran.stdout
        case "stats", _:
            assert "1 refuted" in ran.stdout
        case "export", [*_, "--out", file]:
            assert (stacked.repo / file).stat().st_size > 0
        case "export", _:
            assert receipt.id in ran.stdout
        case "rerun", _:
            request = stacked.records.request(ran.stdout.strip())
            assert request.parent_id == receipt.id
        case _:
            assert Path(stacked.records.folder(receipt.id)).is_dir()
