"""An apply that is killed half way leaves no half state: whoever comes next puts everything back first."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delegation.checkout import exchange as exchanging
from delegation.checkout.apply import apply_patch
from delegation.checkout.exchange import recover, site_of
from delegation.errors import ConflictError

ROOT = Path(__file__).parents[3]
KILLED_AT = """
import os, signal, sys
from pathlib import Path
from delegation.checkout import exchange as exchanging
from delegation.checkout.apply import apply_patch

repo, patch, base, after = sys.argv[1:]
done, left, whole, back = 0, int(after), exchanging._exchange, exchanging._restore

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def counted(top, change, folder):
    global left, done
    if left == 0:
        die()
    left, done = left - 1, done + 1
    whole(top, change, folder)
    if done == 8:
        die()

def counted_back(top, folder, step):
    global left
    left += 1
    back(top, folder, step)
    if left == 0:
        die()

if left < 0:
    exchanging._restore = counted_back
else:
    exchanging._exchange = counted
apply_patch(Path(repo), Path(patch), base)
"""


@pytest.fixture
def patch(repo, trees):
    """Edits, removes, adds, makes a link, and turns a file into a folder and a folder into a file."""
    repo.write("folder/inside", "i\n")
    repo.write("to_folder", "f\n")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("edited\n")
    (root / "pkg/b.py").unlink()
    (root / "folder/inside").unlink()
    (root / "folder").rmdir()
    (root / "folder").write_text("a file now\n")
    (root / "to_folder").unlink()
    (root / "to_folder").mkdir()
    (root / "to_folder/x").write_text("x\n")
    os.symlink("a.py", root / "link")
    (root / "last").write_text("l\n")
    return trees.patch(worktree)


def killed_apply(repo, patch, after: int) -> None:
    argv = [sys.executable, "-c", KILLED_AT, str(repo.path), patch.path, patch.base_commit, str(after)]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def content(repo) -> dict[str, bytes]:
    """The user's files, links as their targets; nothing of git's."""
    return {name: data for name, data in repo.footprint().items() if not name.startswith(".git/")}


@pytest.mark.parametrize("after", range(9))
def test_a_kill_between_any_two_files_is_put_back_and_the_next_apply_goes_through(after, repo, patch):
    before = content(repo)
    killed_apply(repo, patch, after)
    recover(site_of(repo.path, repo.path / ".git"))
    assert content(repo) == before
    assert list((repo.path / ".git").glob("delegate-apply-*")) == []
    assert repo.git("status", "--porcelain") == ""
    apply_patch(repo.path, Path(patch.path), patch.base_commit)
    assert content(repo)["last"] == b"l\n"
    assert (repo.path / "folder").read_text() == "a file now\n"


def test_the_next_apply_puts_back_by_itself_before_it_looks_at_the_files(repo, patch):
    killed_apply(repo, patch, 4)
    applied = apply_patch(repo.path, Path(patch.path), patch.base_commit)
    assert set(applied.files) == {"a.py", "folder", "folder/inside", "last", "link", "pkg/b.py", "to_folder",
                                  "to_folder/x"}  # fmt: skip
    assert list((repo.path / ".git").glob("delegate-apply-*")) == []


@pytest.mark.parametrize("step", range(-7, 0))
def test_a_kill_while_putting_back_is_put_back_too(step, repo, patch):
    before = content(repo)
    killed_apply(repo, patch, 7)
    killed_apply(repo, patch, step)
    recover(site_of(repo.path, repo.path / ".git"))
    assert content(repo) == before


def test_files_edited_after_the_kill_are_kept_and_named_and_nothing_else_changes(repo, patch):
    killed_apply(repo, patch, 8)
    (repo.path / "a.py").write_text("mine, after the kill\n")
    now = content(repo)
    with pytest.raises(ConflictError, match=r"interrupted, and files of it were edited since: a\.py; .*old"):
        apply_patch(repo.path, Path(patch.path), patch.base_commit)
    assert content(repo) == now
    (kept,) = (repo.path / ".git").glob("delegate-apply-*/old/a.py")
    assert kept.read_text().startswith("line 0\n")


def test_what_was_only_written_aside_is_cleared_away(repo, patch):
    left = repo.path / ".git/delegate-apply-dead"
    (left / "new").mkdir(parents=True)
    apply_patch(repo.path, Path(patch.path), patch.base_commit)
    assert not left.exists()


def test_two_applies_to_one_repository_wait_for_each_other(repo, patch, monkeypatch):
    monkeypatch.setattr(exchanging, "_WAIT_SECONDS", 0.2)
    other = os.open(repo.path / ".git", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    try:
        with pytest.raises(ConflictError, match="goes on"):
            apply_patch(repo.path, Path(patch.path), patch.base_commit)
    finally:
        os.close(other)
    assert apply_patch(repo.path, Path(patch.path), patch.base_commit).files


def test_a_plain_folder_is_put_back_too(trees, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(f"{name}\n")
    worktree = trees.create(folder)
    (Path(worktree.root) / "a").write_text("edited\n")
    (Path(worktree.root) / "b").unlink()
    (Path(worktree.root) / "last").write_text("l\n")
    patch = trees.patch(worktree)
    argv = [sys.executable, "-c", KILLED_AT, str(folder), patch.path, patch.base_commit, "2"]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) != ["a", "b"]
    recover(site_of(folder, None))
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "a\n", "b": "b\n"}
