"""One small repair in a real repository and a real worktree, judged in a clean checkout, without the stack."""

import subprocess
import threading
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import ChatClient
from delegation.checkout import patch as patches
from delegation.checkout import worktree as trees
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.home import Home
from delegation.ids import new_id
from delegation.outcome import outcome_of
from delegation.process import child_environment, make_private_folders, run, shell
from delegation.receipt import Outcome, StopReason, Verification
from delegation.request import Limits
from delegation.scripted.endpoint import Call, Turn
from delegation.verdict import verify

TASK = "add() subtracts. Repair it and run the test."
CHECK = "python3 -m unittest test_adding"
LOOK = Turn(
    thinking="The sum is a difference.",
    text="I look.",
    calls=(Call("read_file", {"path": "adding.py"}), Call("search_files", {"pattern": "return"})),
)
REPAIR = Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a + b"}),))
CUT_SHORT = Turn(calls=(Call("write_file", raw='{"path": "adding.py", "content": "def'),))
TEST = Turn(calls=(Call("run_bash", {"command": "python3 -c 'import adding; print(adding.add(2, 3))'"}),))
REPORT = Turn(text="add adds now; 2 and 3 are 5.")
SCRIPT = (LOOK, REPAIR, CUT_SHORT, TEST, REPORT)


@dataclass(frozen=True)
class Course:
    """What a run came to, apart from the way it was asked for."""

    outcome: Outcome
    stop_reason: StopReason
    claim: str | None
    turns: int
    tool_calls: int
    malformed_calls: int
    last_bash_exit: int | None
    patch: str | None


def repository(folder: Path) -> Path:
    """A package of one function, broken, with a test that says so."""
    folder.mkdir(parents=True)
    (folder / "adding.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    (folder / "test_adding.py").write_text(
        "import unittest\n\nfrom adding import add\n\n\nclass Adding(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n",
        encoding="utf-8",
    )
    for words in (("init", "-q", "-b", "main"), ("add", "--all"), ("commit", "-q", "-m", "base")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def delegated(
    model: ChatClient, place: Path, *, repo: Path | None = None, task: str = TASK, check: str | None = None
) -> tuple[Course, AgentResult]:
    """Have the model do the task in a worktree below `place`, collect the patch and judge it by `check`.

    One that is asked too often is asked again, as the agent step does after its wait.
    """
    repo, home = repo or repository(place / "repo"), Home(place / "home", place / "home" / "config")
    (place / "record").mkdir(parents=True)
    worktree = trees.create(
        delegation_id=new_id("dg"),
        repo=repo,
        base_commit=None,
        workdir=".",
        isolation="worktree",
        include_dirty=False,
        place=place / "worktree",
        home=home,
    )
    trees.snapshot(worktree)
    result = _worked(model, place, repo, task, worktree)
    if result.failure is not None and result.failure.kind == "throttled":
        result = _worked(model, place, repo, task, worktree)
    patch = patches.collect(worktree, out=place / "record" / "patch.diff", message="Repair add")
    return _course(result, patch, worktree, place, home, check), result


def _worked(model: ChatClient, place: Path, repo: Path, task: str, worktree: Worktree) -> AgentResult:
    return run_agent(
        model=model,
        agent=find_agent(None, repo, place / "no agents"),
        task=task,
        toolbox=_toolbox(worktree, place),
        limits=Limits(max_turns=10, timeout_seconds=120, max_tokens=2000),
        trajectory=Trajectory(place / "record" / "trajectory.jsonl"),
        expects="change",
        cancelled=threading.Event(),
        on_turn=lambda report: None,
        tree=lambda: patches.tree_now(worktree),
        today=date(2026, 1, 2),
    )


def _toolbox(worktree: Worktree, place: Path) -> Toolbox:
    private, temp = place / "agent-home", place / "agent-temp"
    make_private_folders(home=private, temp=temp)
    extra = {**trees.agent_git_environment(worktree), "PYTHONDONTWRITEBYTECODE": "1"}
    env = child_environment(home=private, temp=temp, extra=extra)
    root = Path(worktree.root)
    return Toolbox(root, lambda command, seconds: run(shell(command), cwd=root, env=env, timeout_seconds=seconds))


def _course(
    result: AgentResult, patch: Patch | None, worktree: Worktree, place: Path, home: Home, check: str | None
) -> Course:
    outcome = outcome_of(
        expects="change",
        failed=result.failure is not None,
        cancelled=False,
        has_patch=patch is not None,
        verification=_verification(patch, worktree, place, home, check) if check else None,
    )
    return Course(
        outcome=outcome,
        stop_reason=result.stop_reason,
        claim=result.claim,
        turns=result.turns,
        tool_calls=result.tool_calls,
        malformed_calls=result.malformed_calls,
        last_bash_exit=result.last_bash_exit,
        patch=Path(patch.path).read_text(encoding="utf-8") if patch else None,
    )


def _verification(patch: Patch | None, worktree: Worktree, place: Path, home: Home, check: str) -> Verification:
    return verify(
        repo=Path(worktree.repo),
        base_commit=worktree.base_commit,
        patch_file=Path(patch.path) if patch else None,
        command=check,
        setup=None,
        wants=(),
        accept="pass",
        place=place / "verify",
        baselines=home.root / "baselines",
        record_dir=place / "record",
        confinement="auto",
        network=False,
        timeout_seconds=120,
    )
