"""A patch goes into the user's checkout whole or not at all, and nothing else there changes."""

import os
import stat
from pathlib import Path

import pytest

from delegation.checkout import exchange as exchanging
from delegation.checkout.apply import Applied, apply_in, apply_patch
from delegation.checkout.worktree import fresh_checkout
from delegation.errors import ConflictError, UsageError, WorkFailed


@pytest.fixture
def patch_of(repo, trees):
    """A patch made by an agent that ran `change` in its tree."""

    def make(change, **options):
        worktree = trees.create(repo.path, **options)
        change(Path(worktree.root))
        return trees.patch(worktree)

    return make


def edit_first_line(root: Path) -> None:
    path = root / "a.py"
    path.write_bytes(path.read_bytes().replace(b"line 0\n", b"LINE 0\n"))


def apply(repo, patch) -> Applied:
    return apply_patch(repo.path, Path(patch.path), patch.base_commit)


def test_the_files_change_and_the_index_does_not(repo, patch_of):
    def change(root: Path) -> None:
        edit_first_line(root)
        (root / "pkg/b.py").unlink()
        (root / "new dir").mkdir()
        (root / "new dir/run.sh").write_text("#!/bin/sh\n")
        (root / "new dir/run.sh").chmod(0o755)
        os.symlink("a.py", root / "link")

    patch = patch_of(change)
    index, head = (repo.path / ".git/index").read_bytes(), repo.head
    assert apply(repo, patch) == Applied(("a.py", "link", "new dir/run.sh", "pkg/b.py"))
    assert (repo.path / "a.py").read_text().startswith("LINE 0\n")
    assert not (repo.path / "pkg").exists()
    assert (repo.path / "new dir/run.sh").stat().st_mode & stat.S_IXUSR
    assert os.readlink(repo.path / "link") == "a.py"
    assert ((repo.path / ".git/index").read_bytes(), repo.head) == (index, head)
    assert not [path for path in repo.path.iterdir() if path.name.startswith(".delegate")]


def test_a_base_that_moved_on_is_merged(repo, patch_of):
    patch = patch_of(edit_first_line)
    text = (repo.path / "a.py").read_text()
    repo.write("a.py", text.replace("line 11", "the user's later line"))
    repo.commit()
    apply(repo, patch)
    merged = (repo.path / "a.py").read_text()
    assert merged == text.replace("line 11", "the user's later line").replace("line 0\n", "LINE 0\n")


def test_commits_that_changed_the_same_lines_are_a_conflict_and_nothing_changes(repo, patch_of):
    def change(root: Path) -> None:
        edit_first_line(root)
        (root / "new.py").write_text("n\n")

    patch = patch_of(change)
    repo.write("a.py", (repo.path / "a.py").read_text().replace("line 0", "mine"))
    repo.commit()
    before = repo.footprint()
    with pytest.raises(ConflictError, match=r"a\.py") as caught:
        apply(repo, patch)
    assert "new.py" not in str(caught.value)
    assert repo.footprint() == before


@pytest.mark.parametrize("kind", ["unstaged", "staged", "untracked", "ignored", "deleted", "staged and reverted"])
def test_the_users_own_change_of_a_patched_file_is_a_conflict_and_nothing_changes(kind, repo, patch_of):
    repo.write(".gitignore", "*.ign\n")
    repo.commit()

    def change(root: Path) -> None:
        edit_first_line(root)
        (root / "new.txt").write_text("n\n")
        (root / ".gitignore").unlink()
        (root / "x.ign").write_text("agent's\n")

    patch = patch_of(change)
    match kind:
        case "unstaged":
            repo.write("a.py", "mine\n")
        case "staged":
            repo.write("a.py", "mine\n")
            repo.git("add", "a.py")
        case "staged and reverted":
            old = (repo.path / "a.py").read_bytes()
            repo.write("a.py", "mine\n")
            repo.git("add", "a.py")
            repo.write("a.py", old)
            apply(repo, patch)
            assert repo.git("show", ":a.py") == "mine"
            return
        case "untracked":
            repo.write("new.txt", "mine\n")
        case "ignored":
            repo.write("x.ign", "mine\n")
        case _:
            (repo.path / "a.py").unlink()
    before = repo.footprint()
    with pytest.raises(ConflictError, match=r"x\.ign" if kind == "ignored" else r"a\.py|new\.txt"):
        apply(repo, patch)
    assert repo.footprint() == before


@pytest.mark.parametrize(("mine", "added"), [("new", "new/x"), ("new/x", "new"), ("new~1", "new~1/x")])
@pytest.mark.parametrize("committed", [False, True])
def test_a_file_where_the_patch_wants_a_folder_is_named_as_it_is_called(mine, added, committed, repo, patch_of):
    def change(root: Path) -> None:
        (root / added).parent.mkdir(exist_ok=True)
        (root / added).write_text("theirs\n")

    patch = patch_of(change)
    (repo.path / mine).parent.mkdir(exist_ok=True)
    repo.write(mine, "mine\n")
    if committed:
        repo.commit()
    with pytest.raises(ConflictError, match=rf"now: {mine.split('/')[0]}$"):
        apply(repo, patch)
    assert (repo.path / mine).read_text() == "mine\n"


def test_an_uncommitted_edit_elsewhere_in_a_patched_file_is_a_conflict_too(repo, patch_of):
    patch = patch_of(edit_first_line)
    repo.write("a.py", (repo.path / "a.py").read_text().replace("line 11", "mine, uncommitted"))
    before = repo.footprint()
    with pytest.raises(ConflictError, match=r"uncommitted changes .* a\.py"):
        apply(repo, patch)
    assert repo.footprint() == before


def test_other_uncommitted_files_are_left_as_they_are(repo, patch_of):
    patch = patch_of(edit_first_line)
    repo.write("pkg/b.py", "mine, staged\n")
    repo.git("add", "pkg/b.py")
    repo.write("pkg/b.py", "mine, unstaged\n")
    repo.write("todo", "t\n")
    index = (repo.path / ".git/index").read_bytes()
    assert apply(repo, patch).files == ("a.py",)
    assert (repo.path / "pkg/b.py").read_text() == "mine, unstaged\n"
    assert (repo.path / ".git/index").read_bytes() == index


def test_applying_twice_changes_nothing_the_second_time(repo, patch_of):
    patch = patch_of(edit_first_line)
    apply(repo, patch)
    assert apply(repo, patch) == Applied(())


def test_a_patch_on_uncommitted_changes_goes_onto_them(repo, patch_of):
    repo.write("a.py", (repo.path / "a.py").read_text() + "the user's uncommitted line\n")
    patch = patch_of(edit_first_line, include_dirty=True)
    apply(repo, patch)
    assert (repo.path / "a.py").read_text().startswith("LINE 0\n")
    assert (repo.path / "a.py").read_text().endswith("the user's uncommitted line\n")


def test_a_file_becomes_a_folder_and_back(repo, patch_of):
    def change(root: Path) -> None:
        (root / "a.py").unlink()
        (root / "a.py").mkdir()
        (root / "a.py/inside").write_text("i\n")
        (root / "pkg/b.py").unlink()
        (root / "pkg").rmdir()
        (root / "pkg").write_text("file\n")

    apply(repo, patch_of(change))
    assert (repo.path / "a.py/inside").read_text() == "i\n"
    assert (repo.path / "pkg").read_text() == "file\n"


def test_the_users_line_endings_are_used(repo, patch_of, user_config):
    patch = patch_of(edit_first_line)
    user_config("core.autocrlf", "true")
    repo.git("rm", "-q", "--cached", "-r", ".")
    repo.git("reset", "-q", "--hard")
    assert b"\r\n" in (repo.path / "a.py").read_bytes()
    apply(repo, patch)
    assert (repo.path / "a.py").read_bytes().startswith(b"LINE 0\r\nline 1\r\n")
    assert repo.git("diff", "--numstat") == "1\t1\ta.py"


def test_a_linked_folder_in_the_way_is_never_written_through(repo, patch_of, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()

    def change(root: Path) -> None:
        (root / "out").mkdir()
        (root / "out/x").write_text("x\n")

    patch = patch_of(change)
    repo.write(".git/info/exclude", "out\n")
    os.symlink(outside, repo.path / "out")
    with pytest.raises(ConflictError, match="out/x"):
        apply(repo, patch)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", ".git/hooks/post-checkout", "/tmp/evil", "link/evil"])
def test_a_patch_with_a_hostile_path_is_refused(name, repo, tmp_path):
    os.symlink(tmp_path, repo.path / "link")
    repo.commit()
    patch = tmp_path / "hostile.diff"
    patch.write_text(
        f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+evil\n"
    )
    before = repo.footprint()
    with pytest.raises((WorkFailed, ConflictError)):
        apply_patch(repo.path, patch, repo.head)
    assert repo.footprint() == before
    assert not (tmp_path / "evil").exists()
    with fresh_checkout(repo.path, repo.head, tmp_path / "fresh") as checkout, pytest.raises(WorkFailed):
        apply_in(checkout, patch)
    assert not (tmp_path / "evil").exists()


def test_an_error_half_way_puts_everything_back_and_leaves_no_undo(repo, patch_of, monkeypatch, tmp_path):
    def change(root: Path) -> None:
        edit_first_line(root)
        (root / "pkg/b.py").unlink()
        (root / "z.py").write_text("z\n")

    patch = patch_of(change)
    before = repo.footprint()
    whole = exchanging._exchange

    def breaks_at_the_end(top, change, folder):
        if change.path == b"z.py":
            raise OSError(28, "No space left on device")
        whole(top, change, folder)

    monkeypatch.setattr(exchanging, "_exchange", breaks_at_the_end)
    undo = tmp_path / "undo.diff"
    with pytest.raises(OSError, match="No space"):
        apply_patch(repo.path, Path(patch.path), patch.base_commit, undo=undo)
    assert repo.footprint() == before
    assert not undo.exists(), "it would stand for a change that was applied"


def test_a_bare_repository_and_an_unknown_base_are_refused(repo, patch_of, tmp_path):
    patch = patch_of(edit_first_line)
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    with pytest.raises(UsageError, match="bare"):
        apply_patch(tmp_path / "bare", Path(patch.path), patch.base_commit)
    with pytest.raises(UsageError, match="1234"):
        apply_patch(repo.path, Path(patch.path), "1234" * 10)


def test_a_plain_folder_takes_the_patch_whole_or_not_at_all(trees, tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "x.py").write_text("x\n")
    worktree = trees.create(folder)
    (Path(worktree.root) / "x.py").write_text("edited\n")
    (Path(worktree.root) / "y.bin").write_bytes(b"\0\1")
    patch = trees.patch(worktree)
    (folder / "x.py").write_text("mine\n")
    with pytest.raises(ConflictError, match=r"x\.py"):
        apply_patch(folder, Path(patch.path), patch.base_commit)
    assert sorted(path.name for path in folder.iterdir()) == ["x.py"]
    (folder / "x.py").write_text("x\n")
    assert apply_patch(folder, Path(patch.path), patch.base_commit) == Applied(("x.py", "y.bin"))
    assert (folder / "y.bin").read_bytes() == b"\0\1"
    assert sorted(path.name for path in folder.iterdir()) == ["x.py", "y.bin"]
