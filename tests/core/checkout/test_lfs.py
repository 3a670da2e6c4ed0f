"""LFS files have their content in trees and checkouts where the repository has it, without git-lfs."""

import hashlib
from pathlib import Path

import pytest

from delegation.checkout.apply import apply_in, apply_patch
from delegation.checkout.worktree import fresh_checkout, remove

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def lfs_repo(repo):
    """A repository with one file in LFS whose content is in its store, and one whose content is not."""
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    oid = hashlib.sha256(CONTENT).hexdigest()
    repo.write("here.bin", pointer(oid, len(CONTENT))).chmod(0o755)
    repo.write("absent.bin", pointer("7" * 64, 12))
    repo.commit()
    repo.write(f".git/lfs/objects/{oid[:2]}/{oid[2:4]}/{oid}", CONTENT)
    return repo


def pointer(oid: str, size: int) -> str:
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


def test_the_content_is_in_the_tree_and_in_the_verify_checkout_and_no_change(lfs_repo, trees, tmp_path):
    worktree = trees.create(lfs_repo.path)
    file = Path(worktree.root) / "here.bin"
    assert file.read_bytes() == CONTENT
    assert file.stat().st_mode & 0o100
    assert (Path(worktree.root) / "absent.bin").read_text().startswith("version ")
    assert any("1 LFS file(s) have their content" in each for each in worktree.warnings)
    assert any("1 LFS file(s) are only pointers" in each for each in worktree.warnings)
    assert trees.collect(worktree) is None
    remove(worktree)
    assert not Path(worktree.root).exists()
    with fresh_checkout(lfs_repo.path, lfs_repo.head, tmp_path / "fresh") as checkout:
        assert (checkout / "here.bin").read_bytes() == CONTENT


def test_a_patch_beside_lfs_files_holds_none_of_them_and_a_changed_one_whole(lfs_repo, trees, tmp_path):
    worktree = trees.create(lfs_repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    assert trees.patch(worktree).names == ("a.py",)
    (Path(worktree.root) / "here.bin").write_bytes(CONTENT + b"more")
    patch = trees.patch(worktree)
    assert patch.names == ("a.py", "here.bin")
    with fresh_checkout(lfs_repo.path, lfs_repo.head, tmp_path / "fresh") as checkout:
        apply_in(checkout, Path(patch.path))
        assert (checkout / "here.bin").read_bytes() == CONTENT + b"more"
    apply_patch(lfs_repo.path, Path(patch.path), patch.base_commit)
    assert (lfs_repo.path / "here.bin").read_bytes() == CONTENT + b"more"


def test_content_that_is_not_what_the_pointer_says_is_not_taken(lfs_repo, trees):
    (stored,) = (path for path in (lfs_repo.path / ".git/lfs/objects").rglob("*") if path.is_file())
    stored.write_bytes(b"x" * len(CONTENT))
    assert (Path(trees.create(lfs_repo.path).root) / "here.bin").read_text().startswith("version ")
