"""Codex, Gemini, dsh and our own agent side by side on the stack, and what a killed process comes to."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from delegation.harnesses.polling import kept_beginnings
from delegation.scripted.endpoint import ScriptedEndpoint
from delegation.settings import load_settings
from mcp_entry.stack.pauses import Pauses
from mcp_entry.terminal.delegate_wait import Waiter
from mcp_entry.verbs.program_jobs import job_fields, submit_jobs
from mcp_entry.verbs.service import Service
from tests.doubles.agy import agy_settings
from tests.doubles.codex import codex_stand_in
from tests.doubles.harness_jobs import program
from tests.doubles.waiting import until
from tests.flows.conftest import ROOT, Terminal, local_model
from tests.flows.test_slots_shared import api

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

SLOTS = "/v2/concurrency_limits/bucket:codex"
LAUNCHER = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in
  --cwd) cwd="$2";; --model) model="$2";; --task-file) task="$2";; --out-dir) out="$2";; *) exit 9;;
esac; shift 2; done
cd "$cwd" && printf -- '--- a/adding.py\\n+++ b/adding.py\\n' > "$out/change.diff"
cat > "$out/result.json" <<END
{"status": "done", "rc": 0, "diff_stat": "1 file changed", "summary": "$(cat "$task") by $model",
 "tokens": {"input": 50, "output": 5}, "wall_s": 3.5}
END
"""


def user_of_all(stack: Terminal, place: Path) -> dict[str, str]:
    """Every program as a stand-in, with what each needs to be let in."""
    models = place / "dsh-models.json"
    models.write_text('{"models": ["deepseek-v4-flash"]}', encoding="utf-8")
    gemini = agy_settings(place).environ
    return stack.environment(
        {
            "DELEGATE_CODEX_BIN": str(codex_stand_in(place, "sed -i 's/a - b/a + b/' adding.py")),
            "CODEX_HOME": str(place / "login"),
            "HOME": gemini["HOME"],
            "DELEGATE_AGY_BIN": gemini["DELEGATE_AGY_BIN"],
            "DELEGATE_GEMINI_ALLOW_DANGER": "1",
            "DELEGATE_DSH_LAUNCHER": str(program(place, "dsh-herdr.sh", LAUNCHER)),
            "DELEGATE_DSH_MODELS_FILE": str(models),
            "DELEGATE_DSH_STATE_DIR": str(place / "dsh-jobs"),
        }
    )


def test_the_watcher_tells_of_four_kinds_and_the_change_of_dsh_lies_apart(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    environment = user_of_all(stack, tmp_path)
    verbs = Service(load_settings(environment, cwd=small_repository))
    tasks: dict[Any, dict[str, Any]] = {"codex": {"verify": "python -m pytest -q"}, "gemini": {"effort": "high"}}
    tasks["dsh"] = {"model": "deepseek-v4-flash"}
    ids: dict[str, str] = {}
    for harness, fields in tasks.items():
        task = {"task": "Repair it", "workdir": str(small_repository), **fields}
        (ids[harness],) = [each.id for each in submit_jobs(verbs, harness, [task], tool="submit", keys=[None])]
    with ScriptedEndpoint(["Looked."]) as endpoint:
        more = {**environment, **local_model(endpoint.base_url)}
        run = ("run", "Look", "--repo", str(small_repository), "--expects", "answer", "--no-wait", "--json")
        ids["ours"] = stack(*run, env=more).json["id"]
        words = [sys.executable, "-m", "mcp_entry.terminal.delegate_wait", "--all", "--json", "--timeout", "170"]
        done = subprocess.run([*words, *ids.values()], env=environment, cwd=ROOT, capture_output=True, text=True)
    told = {each["id"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each.split("-")[0] for each in ids.values()] == ["cx", "gm", "dsh", "dg"]
    assert {each["status"] for each in told.values()} == {"done"}
    assert told[ids["codex"]]["verdict"]["outcome"] == "verified"
    dsh = told[ids["dsh"]]
    assert dsh["response"] == "Repair it by deepseek-v4-flash 1 file changed"
    assert dsh["out_dir"] == str(tmp_path / "dsh-jobs" / ids["dsh"] / "out")
    assert sorted(path.name for path in Path(dsh["out_dir"]).iterdir()) == ["change.diff", "result.json"]
    assert (tmp_path / "dsh-jobs").stat().st_mode & 0o777 == 0o700
    assert dsh["verdict"]["outcome"] == "no_change"
    assert "a - b" in (small_repository / "adding.py").read_text(encoding="utf-8")


def test_the_watcher_hears_of_an_end_from_the_server(stack: Terminal, small_repository: Path, tmp_path: Path):
    """It would look by itself only after 100 s."""
    env = {"DELEGATE_CODEX_BIN": str(codex_stand_in(tmp_path, "sleep 3")), "CODEX_HOME": str(tmp_path / "login")}
    environment = stack.environment({**env, "DELEGATE_WAIT_INTERVAL": "100"})
    verbs, slept = Service(load_settings(environment, cwd=small_repository)), list[float]()
    task = {"task": "Wait", "workdir": str(small_repository)}
    (job,) = [each.id for each in submit_jobs(verbs, "codex", [task], tool="submit_codex", keys=[None])]
    lines: list[str] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    with Pauses(verbs.settings, verbs.records, sleep) as pause:
        begun = time.monotonic()
        assert Waiter(verbs, lines.append, pause=pause).wait([job], 95) == 0
    assert time.monotonic() - begun < 90
    assert len(slept) <= 4  # until the stream is open
    assert lines[0].startswith(f"{job} DONE")


@pytest.mark.slow
def test_a_job_whose_process_is_killed_twice_was_killed_and_leaves_no_orphan(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    """The first time it begins again, from its prompt; the second time it is given up, and the next one has its place:
    the slot, the project and the checkout. It has a daemon that holds no pipe, in a session of its own."""
    marker = str(tmp_path / "never")
    daemon = f"env -i setsid /bin/sh -c 'exec <&- >&- 2>&-; cd /; /bin/sleep 300; :' {tmp_path}/codex &"
    waits = f"{daemon} until [ -e {marker} ]; do sleep 0.2; done"
    env = {"DELEGATE_CODEX_BIN": str(codex_stand_in(tmp_path, waits)), "CODEX_HOME": str(tmp_path / "login")}
    verbs = Service(load_settings(stack.environment(env), cwd=small_repository))
    task = {"task": "Wait", "workdir": str(small_repository)}
    (job,) = [each.id for each in submit_jobs(verbs, "codex", [task], tool="submit_codex", keys=[None])]
    folder = verbs.records.folder(job)
    for number in (1, 2):
        until(lambda number=number: len(kept_beginnings(folder)) == number, 120, f"it began {number} times")
        pid = until(lambda: job_fields(verbs, "codex", job)["owner"]["pid"], 30, "it is owned")
        until(lambda: alive_with(str(tmp_path / "codex")), 30, "the program runs")
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive_with(str(tmp_path / "codex")), 60, "the program is gone with it")
    found = until(lambda: ended_as(verbs, job), 120, "it was given up")
    assert (found["status"], found["retry_count"]) == ("killed_on_restart", 1)
    assert verbs.receipt(job).failure_kind == "lost"
    assert not alive_with(str(tmp_path / "codex"))
    codex_stand_in(tmp_path)  # the next one finds a program that ends
    (after,) = [each.id for each in submit_jobs(verbs, "codex", [task], tool="submit_codex", keys=[None])]
    found = until(lambda: ended_as(verbs, after), 120, "the next one has its place")
    assert found["status"] == "done"
    until(lambda: api(stack, "GET", SLOTS)["active_slots"] == 0, 90, "every slot is free")


def ended_as(verbs: Service, job: str) -> dict[str, Any] | None:
    found = job_fields(verbs, "codex", job)
    return found if "owner" not in found else None


def alive_with(words: str) -> list[str]:
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if words in line and process.status() != psutil.STATUS_ZOMBIE and "--version" not in line:
                found.append(line)
        except psutil.Error:
            continue
    return found
