"""The keeper's sweep of trees: a process of its own, started when due, ended when it hangs, never waited for."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import until

from delegation.checkout.ledger import Ledger
from delegation.checkout.worktree import Worktree, create
from delegation.home import Home
from delegation.ids import new_id
from delegation.secrets import keep
from deployments.configuration import Configuration
from deployments.places import Places
from deployments.upkeep import trees
from deployments.upkeep.trees import TreeSweep


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def home(delegate_home: Path) -> Home:
    home = Home(delegate_home, delegate_home / "config" / "delegate.toml")
    Places(home).make()
    return home


@pytest.fixture
def abandoned(home: Home, tmp_path: Path) -> Worktree:
    """A tree of last year that nobody holds, whose agent left a file that no patch has, of a record that is gone."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a").write_text("a\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    id_ = new_id("dg")
    tree = create(
        delegation_id=id_, repo=repo, base_commit=None, workdir=".", isolation="worktree", include_dirty=False,
        place=home.worktrees / id_, home=home,
    )  # fmt: skip
    (Path(tree.root) / "work").write_text("w\n")
    ledger = Ledger(home)
    entry = ledger.entry(id_)
    ledger.change(id_, lease=None, created_at=entry.created_at.replace(year=entry.created_at.year - 1))
    return tree


@pytest.fixture
def sweeping(home: Home) -> Iterator[tuple[TreeSweep, Clock, list[str]]]:
    clock, said = Clock(), list[str]()
    sweep = TreeSweep(Configuration(home=home), said.append, clock)
    yield sweep, clock, said
    sweep._child.stop()


def receipt(home: Home, delegation_id: str, outcome: str) -> None:
    from datetime import UTC, datetime

    from delegation.receipt import Cost, Receipt

    folder = home.delegations / delegation_id
    folder.mkdir(parents=True)
    written = Receipt.model_validate(
        {
            "id": delegation_id, "outcome": outcome, "expects": "change", "agent": "coder", "agent_source": "built-in",
            "model_requested": None, "model_used": None, "bucket": None, "lane": None, "repo": "/", "base_commit": None,
            "cost": Cost(amount_usd=None, kind="unknown"), "created_at": datetime.now(UTC),
            "ended_at": datetime.now(UTC),
        }
    )  # fmt: skip
    (folder / "receipt.json").write_text(written.model_dump_json())


def test_a_sweep_runs_when_due_in_a_process_of_its_own_and_logs_what_it_did(home, abandoned, sweeping):
    sweep, clock, said = sweeping
    receipt(home, abandoned.delegation_id, "verified")
    sweep.tick()
    assert sweep.pid is None, "not due yet"
    clock.now = 31
    begun = time.monotonic()
    sweep.tick()
    assert time.monotonic() - begun < 2, "the keeper is not kept waiting"
    assert sweep.pid is not None
    until(lambda: sweep.tick() or sweep.pid is None)
    log = (home.stack / "logs" / "trees.log").read_text()
    assert f"removed {abandoned.name}: nobody holds it and its work is stored; kept: refs/delegate/" in log
    assert not Path(abandoned.root).exists()
    assert said == []
    sweep.tick()
    assert sweep.pid is None, "the next one is due in minutes"
    clock.now = 332
    sweep.tick()
    assert sweep.pid is not None


def test_the_sweep_removes_keys_that_no_delegation_refers_to(home, sweeping):
    sweep, clock, _ = sweeping
    keep(home, "fresh")
    old = home.secrets / keep(home, "old").removeprefix("secret:")
    os.utime(old, (0, 0))
    clock.now = 31
    sweep.tick()
    until(lambda: sweep.tick() or sweep.pid is None)
    assert not old.exists()
    assert len(list(home.secrets.iterdir())) == 1
    assert "removed 1 keys that no delegation needs" in (home.stack / "logs" / "trees.log").read_text()


@pytest.mark.parametrize("outcome", [None, "failed", "cancelled"])
def test_a_tree_that_may_be_taken_up_again_stays(outcome: str | None, home, abandoned, sweeping):
    sweep, clock, _ = sweeping
    if outcome:
        receipt(home, abandoned.delegation_id, outcome)
    clock.now = 31
    sweep.tick()
    until(lambda: sweep.tick() or sweep.pid is None)
    assert (Path(abandoned.root) / "work").exists()


def test_a_sweep_that_hangs_is_ended_and_told_of(home, sweeping, monkeypatch):
    sweep, clock, said = sweeping
    sweep._child.argv = ["sleep", "600"]
    clock.now = 31
    sweep.tick()
    pid = sweep.pid
    clock.now += trees._LONGEST_SECONDS + 1
    sweep.tick()
    assert said == ["trees: the sweep took more than 1800 s and was ended"]
    assert not psutil.pid_exists(pid)


def test_a_sweep_that_breaks_is_told_of_and_tried_again(home, sweeping):
    sweep, clock, said = sweeping
    sweep._child.argv = ["false"]
    clock.now = 31
    sweep.tick()
    until(lambda: sweep.tick() or said)
    assert said == ["trees: the sweep ended with exit code 1, see trees.log"]
    clock.now = 400
    sweep.tick()
    assert sweep.pid is not None
