"""Nothing is ever lost: trees go only when nobody holds them and their work can be brought back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delegation.checkout.ledger import Ledger, lease_of_this_process
from delegation.checkout.removal import size_bytes, sweep
from delegation.checkout.snapshots import restored_into
from delegation.checkout.worktree import agent_git_environment, create, remove, snapshot
from delegation.errors import NotFoundError, WorkFailed
from delegation.ids import new_id
from delegation.processes.identity import start_of


@pytest.fixture
def other_process():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def held_by(pid: int, started: float | None = None) -> dict[str, object]:
    lease = lease_of_this_process().model_dump()
    return lease | {"pid": pid, "started": started if started is not None else start_of(pid)}


def abandon(trees, worktree) -> None:
    trees.home.make(trees.home.ledger)
    Ledger(trees.home).release(worktree.name)


def test_a_tree_is_held_by_the_process_that_made_it(repo, trees):
    worktree = trees.create(repo.path)
    entry = Ledger(trees.home).entry(worktree.name)
    assert entry.lease
    assert (entry.lease.pid, entry.state, entry.is_held) == (os.getpid(), "ready", True)
    assert [swept.action for swept in sweep(trees.home)] == ["kept"]
    assert Path(worktree.root).is_dir()


def test_a_captured_tree_is_removed_without_a_trace_in_the_repository(repo, trees):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("x\n")
    (Path(worktree.root) / "locked").mkdir(mode=0o500)
    patch = trees.patch(worktree)
    remove(worktree)
    remove(worktree)
    assert not Path(worktree.place).exists()
    assert Ledger(trees.home).find(worktree.name) is None
    assert repo.git("worktree", "list").count("\n") == 0
    assert repo.git("show", f"{patch.branch}:a.py") == "x"


def test_an_untouched_tree_is_removed(repo, trees):
    worktree = trees.create(repo.path)
    remove(worktree)
    assert not Path(worktree.root).exists()


@pytest.mark.parametrize("when", ["before any patch", "after the patch"])
def test_a_tree_with_work_that_is_stored_nowhere_is_not_removed(when, repo, trees):
    worktree = trees.create(repo.path)
    if when == "after the patch":
        (Path(worktree.root) / "a.py").write_text("x\n")
        trees.patch(worktree)
    (Path(worktree.root) / "only_untracked.py").write_text("work\n")
    with pytest.raises(WorkFailed, match="stored nowhere"):
        remove(worktree)
    assert (Path(worktree.root) / "only_untracked.py").exists()


def test_a_tree_held_by_another_live_process_is_neither_removed_nor_swept(repo, trees, other_process):
    worktree = trees.create(repo.path)
    Ledger(trees.home).change(worktree.name, lease=held_by(other_process.pid))
    with pytest.raises(WorkFailed, match=str(other_process.pid)):
        remove(worktree)
    with pytest.raises(WorkFailed, match=str(other_process.pid)):
        Ledger(trees.home).take(worktree.name)
    assert [(swept.action, swept.reason) for swept in sweep(trees.home)] == [("kept", "a live process holds it")]
    assert Path(worktree.root).is_dir()


def test_a_process_id_that_was_used_again_holds_nothing(repo, trees, other_process):
    worktree = trees.create(repo.path)
    started = start_of(other_process.pid)
    assert started
    Ledger(trees.home).change(worktree.name, lease=held_by(other_process.pid, started - 1000))
    assert [swept.action for swept in sweep(trees.home)] == ["removed"]
    assert not Path(worktree.root).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the time of day tells when a process began")
def test_setting_the_clock_frees_no_tree_that_is_worked_in(repo, trees, other_process, monkeypatch: pytest.MonkeyPatch):
    worktree = trees.create(repo.path)
    Ledger(trees.home).change(worktree.name, lease=held_by(other_process.pid))
    monkeypatch.setattr("psutil.Process.create_time", lambda _: 1.0)
    assert [swept.action for swept in sweep(trees.home)] == ["kept"]


def test_a_holder_on_another_host_counts_as_alive(repo, trees):
    worktree = trees.create(repo.path)
    Ledger(trees.home).change(worktree.name, lease=held_by(1) | {"host": "elsewhere"})
    assert [swept.action for swept in sweep(trees.home)] == ["kept"]


def test_the_sweep_stores_untracked_and_ignored_files_before_it_removes(repo, trees, tmp_path):
    repo.write(".gitignore", "build/\n")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "only_untracked.py").write_text("work\n")
    (root / "build").mkdir()
    (root / "build/report.txt").write_text("deliverable\n")
    abandon(trees, worktree)
    (swept,) = sweep(trees.home)
    assert (swept.action, swept.saved_refs) == ("removed", (f"refs/delegate/{worktree.name}/files",))
    assert not root.exists()
    restored_into(Ledger(trees.home).entry(worktree.name), tmp_path / "back")
    assert (tmp_path / "back/only_untracked.py").read_text() == "work\n"
    assert (tmp_path / "back/build/report.txt").read_text() == "deliverable\n"
    assert [swept.reason for swept in sweep(trees.home)] == ["was removed before"]


def test_commits_and_stashes_of_the_agent_are_stored_before_removal(repo, trees):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    env = {"PATH": os.environ["PATH"], **agent_git_environment(worktree)}

    def git(*args: str) -> None:
        subprocess.run(["git", *args], cwd=root, env=env, check=True, capture_output=True)

    for kind in ("branch", "detached", "old stash", "stash"):
        (root / "a.py").write_text(f"{kind}\n")
        git("stash") if "stash" in kind else git("commit", "-qam", "mine")
        if kind == "branch":
            git("branch", "kept")
        git("checkout", "-q", "--detach", worktree.base_commit)
    git("pack-refs", "--all")
    assert trees.collect(worktree) is None
    remove(worktree)
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/delegate").splitlines()
    assert {repo.git("show", f"{ref}:a.py") for ref in refs} == {"branch", "detached", "old stash", "stash"}
    repo.git("fsck", "--strict")


def test_work_of_a_plain_folder_can_be_restored_after_its_tree_is_gone(trees, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "x.py").write_text("x\n")
    worktree = trees.create(folder)
    (Path(worktree.root) / "x.py").write_text("work\n")
    abandon(trees, worktree)
    sweep(trees.home)
    assert not Path(worktree.root).exists()
    restored_into(Ledger(trees.home).entry(worktree.name), tmp_path / "back")
    assert (tmp_path / "back/x.py").read_text() == "work\n"


def test_edits_inside_a_submodule_are_stored_before_removal(repo, trees, make_repo, tmp_path):
    sub = make_repo("sub")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(sub.path), "third")
    repo.commit()
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "third/a.py").write_text("edited\n")
    abandon(trees, worktree)
    sweep(trees.home)
    assert not Path(worktree.root).exists()
    restored_into(Ledger(trees.home).entry(worktree.name), tmp_path / "back")
    assert (tmp_path / "back/third/a.py").read_text() == "edited\n"


def test_a_tree_whose_work_cannot_be_stored_stays(repo, trees):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "new.py").write_text("n\n")
    abandon(trees, worktree)
    repo.path.rename(repo.path.with_name("moved"))
    (swept,) = sweep(trees.home)
    assert swept.action == "kept"
    assert (Path(worktree.root) / "new.py").exists()


def test_trees_without_an_entry_and_of_other_homes_are_left_alone(repo, trees, tmp_path):
    foreign = trees.home.worktrees / new_id("dg") / "tree"
    foreign.mkdir(parents=True)
    worktree = trees.create(repo.path)
    Ledger(trees.home).forget(worktree.name)
    assert sweep(trees.home) == ()
    assert foreign.is_dir()
    assert Path(worktree.root).is_dir()


def test_wanted_and_young_trees_are_kept(repo, trees):
    worktree = trees.create(repo.path)
    abandon(trees, worktree)
    assert [swept.reason for swept in sweep(trees.home, min_age_seconds=3600)] == ["too young"]
    kept = sweep(trees.home, why_wanted=lambda entry: "asked for" if entry.name == worktree.name else None)
    assert [(swept.action, swept.reason) for swept in kept] == [("kept", "asked for")]
    assert size_bytes(Ledger(trees.home).entry(worktree.name)) > 4096
    assert [swept.action for swept in sweep(trees.home)] == ["removed"]


def test_in_place_work_is_never_removed(repo, trees):
    repo.write("mine.txt", "m\n")
    worktree = trees.create(repo.path, isolation="in_place")
    repo.write("a.py", "agent's\n")
    remove(worktree)
    assert (repo.path / "mine.txt").exists()
    assert (repo.path / "a.py").read_text() == "agent's\n"
    assert not Path(worktree.place).exists()


def test_what_a_dead_process_left_half_made_is_cleared_for_the_next_try(repo, trees):
    id_ = new_id("dg")
    worktree = trees.create(repo.path, delegation_id=id_)
    Ledger(trees.home).change(id_, state="making", lease=held_by(os.getpid(), 1.0))
    (Path(worktree.root) / "a.py").unlink()
    assert (Path(trees.create(repo.path, delegation_id=id_).root) / "a.py").exists()


def test_a_delegation_that_starts_over_gets_a_second_tree_beside_the_first(repo, trees):
    first = trees.create(repo.path)
    second = create(
        delegation_id=first.delegation_id, repo=repo.path, base_commit=None, workdir=".", isolation="worktree",
        include_dirty=False, place=Path(f"{first.place}.2"), home=trees.home,
    )  # fmt: skip
    assert [entry.name for entry in Ledger(trees.home).entries()] == [first.delegation_id, f"{first.delegation_id}.2"]
    (Path(second.root) / "a.py").write_text("x\n")
    assert trees.patch(second).branch == f"delegate/{first.delegation_id}"


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "dg-1", "*", "dg-20261130t113652417-k7x2/x"])
def test_a_name_that_is_no_tree_is_not_found_and_reaches_no_file(name, trees):
    with pytest.raises(NotFoundError):
        Ledger(trees.home).entry(name)


def test_setup_leftovers_do_not_keep_a_tree(repo, trees):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "generated").write_text("by setup\n")
    snapshot(worktree)
    remove(worktree)
    assert not Path(worktree.root).exists()
