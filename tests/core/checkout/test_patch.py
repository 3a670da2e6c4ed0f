"""The patch holds everything the agent changed, and gives exactly that on the base."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from delegation.checkout import difference
from delegation.checkout.worktree import snapshot
from delegation.errors import WorkFailed
from tests.core.checkout.shell import agent_git


def test_untracked_deleted_and_edited_files_are_all_in_the_patch(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("edited\n")
    (root / "pkg/b.py").unlink()
    (root / "pkg/new.py").write_text("new\n")
    patch = round_trip(worktree)
    assert patch.names == ("a.py", "pkg/b.py", "pkg/new.py")
    assert (patch.files, patch.insertions, patch.deletions) == (3, 2, 24)


def test_edited_staged_committed_and_mixed_work_give_the_same_patch(repo, trees):
    hashes = set()
    for kind in ("edit", "stage", "commit", "mixed", "detached history", "rewritten"):
        worktree = trees.create(repo.path)
        root = Path(worktree.root)
        (root / "a.py").write_text("edited\n")
        if kind == "stage":
            agent_git(worktree, "add", "-A")
        if kind in ("commit", "mixed", "detached history"):
            agent_git(worktree, "commit", "-qam", "work")
        if kind == "rewritten":
            agent_git(worktree, "checkout", "-q", "--orphan", "other")
            agent_git(worktree, "commit", "-qam", "history is gone")
        if kind == "detached history":
            agent_git(worktree, "switch", "-qc", "branch")
        (root / "n.py").write_text("n\n")
        hashes.add(trees.patch(worktree).sha256)
    assert len(hashes) == 1


def test_collecting_twice_gives_the_same_bytes_and_leaves_the_agents_index_alone(repo, trees):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "pkg/b.py").unlink()
    (Path(worktree.root) / "new.py").write_text("n\n")
    before = agent_git(worktree, "status", "--porcelain")
    first, second = trees.patch(worktree), trees.patch(worktree)
    assert first == second
    assert agent_git(worktree, "status", "--porcelain") == before == " D pkg/b.py\n?? new.py\n"


def test_nothing_changed_gives_no_patch_also_when_only_dates_changed(repo, trees):
    worktree = trees.create(repo.path)
    os.utime(Path(worktree.root) / "a.py", (1, 1))
    assert trees.collect(worktree) is None
    assert list(trees.out.iterdir()) == []
    assert repo.git("branch", "--list", "delegate/*") == ""


def test_an_edit_of_the_same_size_within_the_same_second_is_seen(repo, trees):
    for _ in range(5):
        worktree = trees.create(repo.path)
        path = Path(worktree.root) / "a.py"
        path.write_bytes(path.read_bytes().replace(b"line 0", b"LINE 0"))
        assert trees.patch(worktree).names == ("a.py",)


def test_binary_files_survive_the_round_trip(repo, trees, round_trip):
    repo.write("t.bin", bytes(range(256)) * 4)
    repo.write("d.bin", b"\0" * 100)
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "logo.png").write_bytes(bytes(reversed(range(256))))
    (root / "t.bin").write_bytes(bytes(range(256)) * 4 + b"\0x")
    (root / "d.bin").unlink()
    assert round_trip(worktree).files == 3


def test_a_patch_that_would_not_give_the_agents_tree_is_a_failure_and_no_file(repo, trees, monkeypatch):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    (Path(worktree.root) / "b.py").write_text("new\n")
    monkeypatch.setattr(difference, "_DIFF", (*difference._DIFF, "--diff-filter=M"))
    with pytest.raises(WorkFailed, match="the patch gives the tree"):
        trees.collect(worktree)
    assert list(trees.out.iterdir()) == []
    assert Path(worktree.root).is_dir()


def test_what_setup_left_is_not_the_agents(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "generated.txt").write_text("by setup\n")
    (root / "a.py").write_bytes((root / "a.py").read_bytes() + b"setup was here\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    assert trees.collect(worktree) is None
    (root / "pkg/b.py").write_text("edited\n")
    assert trees.patch(worktree).names == ("pkg/b.py",)


def test_a_file_that_setup_and_agent_changed_is_named(repo, trees):
    worktree = trees.create(repo.path)
    path = Path(worktree.root) / "a.py"
    path.write_bytes(path.read_bytes() + b"setup\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    path.write_bytes(path.read_bytes() + b"agent\n")
    patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("setup changed" in warning and "a.py" in warning for warning in patch.warnings)


def test_ignored_files_the_agent_made_are_named(repo, trees, user_config, tmp_path):
    repo.write(".gitignore", "build/\nold/\n__pycache__/\n")
    repo.commit()
    (tmp_path / "global").write_text("*.log\n")
    user_config("core.excludesFile", str(tmp_path / "global"))
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "old").mkdir()
    (root / "old/setup.o").write_text("by setup\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    (root / "build").mkdir()
    (root / "build/report.txt").write_text("r\n")
    (root / "old/new.o").write_text("n\n")
    (root / "sample.log").write_text("l\n")
    (root / "__pycache__").mkdir()
    (root / "__pycache__/a.pyc").write_text("l\n")
    patch = trees.patch(worktree)
    assert patch.names == ("sample.log",)  # the user's own ignore rules have no say in the repository's content
    assert [(each.path, each.size_bytes) for each in patch.ignored_outputs] == [
        ("build/report.txt", 2),
        ("old/new.o", 2),
    ]


def test_pipes_and_sockets_are_named_and_left_out(repo, trees, monkeypatch):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    monkeypatch.chdir(root)
    os.mkfifo(root / "pipe")
    (root / "a.py").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        os.mkfifo(root / "a.py")
        patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("pipe" in warning and "a.py" in warning for warning in patch.warnings)


def test_a_patch_that_deletes_most_files_is_pointed_out(repo, trees):
    for n in range(40):
        repo.write(f"many/{n}")
    repo.commit()
    worktree = trees.create(repo.path)
    shutil.rmtree(Path(worktree.root) / "many")
    assert any("deletes 40 files" in warning for warning in trees.patch(worktree).warnings)
