"""A flow process killed (SIGKILL) in each of its six steps, on the real stack: what was done is neither lost nor done
twice, and the delegation is taken up again or honestly called lost."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, committed, local_model, stack_of

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

STEPS = ("prepare", "worktree", "agent", "collect", "verify", "record")
PAUSE = "test -e {flag} || {{ touch {flag}; sleep 600; }}"
"""Waits to be killed, the first time only."""
AGAIN = "touch {flags}$(( $(ls {flags}* 2>/dev/null | wc -l) + 1 )); sleep 600"
"""Waits to be killed every time."""


@dataclass
class Killed:
    """One delegation whose process was killed in a step, so many times."""

    step: str
    folder: Path
    terminal: Terminal
    times: int = 1
    id: str = ""
    pids: list[int] = field(default_factory=list)
    steps_seen: list[str] = field(default_factory=list)
    requests: int = 0
    receipt: dict[str, Any] = field(default_factory=dict)
    problem: BaseException | None = None

    def run(self) -> None:
        """The whole story, in a thread of its own."""
        try:
            with ScriptedEndpoint(self._turn) as endpoint:
                submitting = threading.Thread(target=self._submit, args=(endpoint,))
                submitting.start()  # the run may have begun before the terminal that made it has ended
                for time_ in range(self.times):
                    self._kill(time_)
                submitting.join()
                self.receipt = self.terminal("wait", self.id, "--json", timeout=400).json
                self.requests = len(endpoint.calls)
        except BaseException as problem:
            self.problem = problem

    @property
    def record(self) -> Path:
        return self.terminal.home / "delegations" / self.id

    def flag(self, number: int) -> Path:
        return self.folder / f"flag-{self.step}-{number}"

    def _pause(self, step: str) -> str:
        if step == self.step and self.times > 1:
            return AGAIN.format(flags=f"{self.folder}/flag-{step}-")
        return PAUSE.format(flag=self.flag(0)) if step == self.step else "true"

    def _turn(self, request: Any) -> Turn:
        effect = f"echo once >> effects.txt; {self._pause('agent')}"
        turns = (
            Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a + b"}),)),
            Turn(calls=(Call("run_bash", {"command": effect}),)),
            Turn(text="Repaired."),
        )
        return turns[min(request.turn, 2)]

    def _submit(self, endpoint: ScriptedEndpoint) -> None:
        repo = self.folder / "repo"
        repo.mkdir(parents=True)
        (repo / "adding.py").write_text("def add(a, b):\n    return a - b\n")
        committed(repo)
        verify = f"{self._pause('verify')}; grep -q 'a + b' adding.py"
        words = (
            "run",
            f"Fix it, and be killed in {self.step}",
            "--repo",
            str(repo),
            "--setup",
            self._pause("worktree"),
        )
        env = {
            **local_model(endpoint.base_url),
            "DELEGATE_CONFINEMENT": "off",
            "DELEGATE_CONCURRENCY_OPENAI_SCRIPTED": "8",
        }
        started = self.terminal(*words, "--verify", verify, "--no-wait", "--json", env=env)
        assert started.code == 0, started.stderr
        self.id = started.json["id"]

    def _kill(self, number: int) -> None:
        pid = self._pid_in_step(number)
        self.steps_seen.append(json.loads((self.record / "status.json").read_text())["step"])
        os.kill(pid, signal.SIGKILL)
        self.pids.append(pid)

    def _pid_in_step(self, number: int) -> int:
        """The flow process, as soon as it says that it is in the step (and has reached the pause of a long one)."""
        flag = self.flag(number + 1 if self.times > 1 else 0)
        end, pid = time.monotonic() + 300, None
        while time.monotonic() < end:
            status = self._status()
            if status.get("step") == self.step and status.get("pid") not in (None, *self.pids):
                pid = status["pid"]
            if pid and (self.step in ("prepare", "collect", "record") or flag.exists()):
                return pid
            time.sleep(0.001)
        raise AssertionError(f"never in {self.step}: {self._status()}")

    def _status(self) -> dict[str, Any]:
        self.id = self.id or self._id_of_task()
        try:
            return json.loads((self.record / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def _id_of_task(self) -> str:
        """Before the terminal has said it; no id at all where the record is not there yet."""
        time.sleep(0.005)
        for request in self.terminal.home.glob("delegations/dg-*/request.json"):
            try:
                card = json.loads(request.read_text())["card"]
            except (OSError, ValueError, KeyError):
                continue
            if card["repo"] == str(self.folder / "repo"):
                return request.parent.name
        return ""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with stack_of(
        Terminal(tmp_path_factory.mktemp("kills")), env={"DELEGATE_CONCURRENCY_OPENAI_SCRIPTED": "8"}
    ) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def killed(terminal: Terminal, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Killed]:
    """All of them at the same time: each waits for the keeper, which looks every 15 seconds."""
    folder = tmp_path_factory.mktemp("killed")
    found = {step: Killed(step, folder / step, terminal) for step in STEPS}
    found["verify, twice"] = Killed("verify", folder / "twice", terminal, times=2)
    threads = [threading.Thread(target=each.run) for each in found.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("step", STEPS)
def test_a_delegation_killed_in_a_step_is_taken_up_again_and_does_nothing_twice(step: str, killed: dict[str, Killed]):
    case = killed[step]
    assert case.problem is None, case.problem
    assert case.steps_seen == [step]
    receipt = case.receipt
    assert (receipt["outcome"], receipt["failure_kind"]) == ("verified", None), receipt["failure_message"]
    assert case.requests == 3, "no request to the model was made twice"
    assert receipt["turns"] == 3
    patch = (case.record / "patch.diff").read_text()
    assert patch.count("+once") == 1, "the command with an effect ran once"
    assert "+    return a + b" in patch


@pytest.mark.parametrize("step", [*STEPS, "verify, twice"])
def test_every_change_can_be_restored_after_the_kill(step: str, killed: dict[str, Killed], tmp_path: Path):
    case = killed[step]
    assert case.problem is None, case.problem
    restored = case.terminal("worktrees", "restore", case.id, "--to", str(tmp_path / "back"), "--json")
    assert restored.code == 0, restored.stderr
    assert (tmp_path / "back/adding.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (tmp_path / "back/effects.txt").read_text().splitlines()[0] == "once"
    assert git(case.folder / "repo", "show", f"{case.receipt['branch']}:adding.py").endswith("a + b\n")
    assert git(case.folder / "repo", "status", "--porcelain") == ""
    git(case.folder / "repo", "fsck", "--strict")


def test_a_delegation_killed_twice_at_one_place_is_lost_says_so_and_its_work_is_kept(killed: dict[str, Killed]):
    case = killed["verify, twice"]
    assert case.problem is None, case.problem
    assert (case.receipt["outcome"], case.receipt["failure_kind"]) == ("failed", "lost")
    assert "no progress since" in case.receipt["failure_message"]
    patch = (case.record / "patch.diff").read_text()
    assert "+    return a + b" in patch
    assert patch.count("+once") == 1


def test_nothing_that_a_killed_process_had_started_is_left(killed: dict[str, Killed], terminal: Terminal):
    assert [line for line in terminal.processes() if "sleep 600" in line] == []
    assert subprocess.run(["pgrep", "-f", "^sleep 600$"], capture_output=True).stdout == b""


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, text=True).stdout
