"""A set of changes: who meets whom, in which order they go in, as files or as a branch, and the way back."""

import os
import subprocess
from pathlib import Path

import pytest

from delegation.checkout.apply import apply_patch, apply_pieces
from delegation.checkout.merging import Piece
from delegation.checkout.patch_set import make_branch, plan_of, write_combined
from delegation.errors import ConflictError, UsageError, WorkFailed


@pytest.fixture
def piece_of(repo, trees):
    """A piece by an agent that wrote these files (None: removed)."""

    def make(name: str, **files: str | None) -> Piece:
        worktree = trees.create(repo.path)
        for path, text in files.items():
            target = Path(worktree.root) / path.replace("__", "/").replace("_py", ".py")
            if text is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        patch = trees.patch(worktree)
        return Piece(name, Path(patch.path), patch.base_commit, f"Change {name}")

    return make


def edited(line: int, text: str) -> str:
    return "".join(f"{text if n == line else f'line {n}'}\n" for n in range(12))


def test_changes_that_do_not_meet_go_in_together_in_the_order_they_were_named(repo, piece_of):
    pieces = [piece_of("top", a_py=edited(0, "TOP")), piece_of("end", a_py=edited(11, "END")), piece_of("new", n="n\n")]
    before = repo.footprint()
    plan = plan_of(repo.path, pieces)
    assert (plan.order, plan.left_out, plan.meetings) == (("top", "end", "new"), {}, ())
    assert {k: v for k, v in repo.footprint().items() if not k.startswith(".git/")} == {
        k: v for k, v in before.items() if not k.startswith(".git/")
    }
    applied = apply_pieces(repo.path, pieces)
    assert applied.files == ("a.py", "n")
    assert (repo.path / "a.py").read_text() == edited(0, "TOP").replace("line 11", "END")


def test_each_pair_that_meets_is_named_and_the_one_that_meets_most_is_left_out(repo, piece_of):
    pieces = [
        piece_of("both", a_py=edited(0, "X").replace("line 11", "Y")),
        piece_of("first", a_py=edited(0, "1")),
        piece_of("last", a_py=edited(11, "2")),
    ]
    plan = plan_of(repo.path, pieces)
    assert {(each.first, each.second) for each in plan.meetings} == {("both", "first"), ("both", "last")}
    assert plan.order == ("first", "last")
    assert list(plan.left_out) == ["both"]
    assert "cannot be applied together with first, last: a.py" in plan.left_out["both"]
    before = repo.footprint()
    with pytest.raises(ConflictError):
        apply_pieces(repo.path, pieces)
    assert repo.footprint() == before


def test_a_file_and_a_folder_of_one_name_meet(repo, piece_of):
    plan = plan_of(repo.path, [piece_of("file", new="f\n"), piece_of("folder", new__x="x\n")])
    assert len(plan.meetings) == 1
    assert not plan.is_whole


def test_uncommitted_work_leaves_out_only_the_change_that_overlaps(repo, piece_of):
    pieces = [piece_of("mine", a_py=edited(0, "X")), piece_of("other", n="n\n")]
    repo.write("a.py", "the user's\n")
    plan = plan_of(repo.path, pieces)
    assert plan.order == ("other",)
    assert "uncommitted changes" in plan.left_out["mine"]


def test_the_combined_patch_is_what_all_give_on_head(repo, piece_of, tmp_path):
    pieces = [piece_of("top", a_py=edited(0, "TOP")), piece_of("gone", pkg__b_py=None)]
    repo.write("later", "l\n")
    head = repo.commit()
    assert write_combined(repo.path, pieces, tmp_path / "all.diff") == head
    applied = apply_patch(repo.path, tmp_path / "all.diff", head)
    assert applied.files == ("a.py", "pkg/b.py")
    assert (repo.path / "later").exists()


def test_a_branch_has_one_commit_for_each_change_and_touches_nothing_else(repo, piece_of):
    pieces = [piece_of("top", a_py=edited(0, "TOP")), piece_of("same", a_py=edited(0, "TOP")), piece_of("new", n="n\n")]
    repo.write("todo", "uncommitted\n")
    head, status = repo.head, repo.git("status", "--porcelain")
    made = make_branch(repo.path, "try-it", pieces)
    assert (made.commits, repo.head, repo.git("status", "--porcelain")) == (2, head, status)
    assert repo.git("log", "--format=%s", f"{head}..try-it").splitlines() == ["Change new", "Change top"]
    assert repo.git("show", "try-it:n") == "n"
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    repo.git("fsck", "--strict")


@pytest.mark.parametrize("name", ["-f", "a b", "x.lock", "../x", "", "HEAD~1"])
def test_a_name_that_is_none_makes_no_branch(name, repo, piece_of):
    with pytest.raises(UsageError, match="cannot be the name"):
        make_branch(repo.path, name, [piece_of("n", n="n\n")])


def test_a_branch_that_exists_is_never_moved(repo, piece_of):
    repo.git("branch", "there")
    with pytest.raises(ConflictError, match="there"):
        make_branch(repo.path, "there", [piece_of("n", n="n\n")])
    assert repo.git("rev-parse", "there") == repo.head


def test_changes_that_meet_make_no_branch(repo, piece_of):
    with pytest.raises(ConflictError):
        make_branch(repo.path, "try", [piece_of("1", a_py=edited(0, "1")), piece_of("2", a_py=edited(0, "2"))])
    assert repo.git("branch", "--list", "try") == ""


@pytest.mark.parametrize("endings", ["", "true"])
def test_the_undo_command_gives_back_what_was_there(endings, repo, trees, tmp_path, user_config, files):
    repo.write("odd name\n.txt", "odd\n")
    repo.commit()
    if endings:
        user_config("core.autocrlf", endings)
        repo.git("rm", "-q", "--cached", "-r", ".")
        repo.git("reset", "-q", "--hard")
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text(edited(0, "X"))
    (root / "pkg/b.py").unlink()
    (root / "odd name\n.txt").write_text("changed\n")
    (root / "new.bin").write_bytes(bytes(range(256)))
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    os.symlink("a.py", root / "link")
    patch = trees.patch(worktree)
    repo.write("mine", "uncommitted\n")
    before = files(repo.path)
    applied = apply_patch(repo.path, Path(patch.path), patch.base_commit, undo=tmp_path / "it's undo.diff")
    assert files(repo.path) != before
    subprocess.run(applied.undo, shell=True, check=True, cwd="/")
    assert files(repo.path) == before


def test_the_undo_of_a_merge_leaves_later_commits_alone_and_refuses_later_edits(repo, trees, tmp_path, piece_of):
    piece = piece_of("top", a_py=edited(0, "TOP"))
    repo.write("a.py", edited(11, "committed later"))
    repo.commit()
    undo = apply_pieces(repo.path, [piece], undo=tmp_path / "undo.diff").undo
    subprocess.run(undo, shell=True, check=True)
    assert (repo.path / "a.py").read_text() == edited(11, "committed later")
    apply_pieces(repo.path, [piece], undo=tmp_path / "undo.diff")
    repo.write("a.py", "mine by now\n")
    assert subprocess.run(undo, shell=True, capture_output=True).returncode != 0
    assert (repo.path / "a.py").read_text() == "mine by now\n"


LINK = """diff --git a/{name} b/{name}
new file mode 120000
--- /dev/null
+++ b/{name}
@@ -0,0 +1 @@
+{target}
\\ No newline at end of file
"""
FILE = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+evil\n"


@pytest.mark.parametrize(
    "text",
    [
        LINK.format(name="out", target="/etc"),
        LINK.format(name="out", target="../elsewhere"),
        LINK.format(name="pkg/out", target="../../elsewhere"),
        LINK.format(name="out", target="../elsewhere") + FILE.format("out/x"),
        LINK.format(name="out", target="pkg") + FILE.format("out/../../elsewhere/x"),
        LINK.format(name=".git", target="elsewhere"),
        LINK.format(name=".GIT/hooks", target="../pkg"),
        LINK.format(name=".gitmodules", target="pkg/b.py"),
        FILE.format(".git/config"),
        FILE.format("pkg/.GIT/hooks/pre-commit"),
        FILE.format("a/../../x"),
    ],
)
def test_a_patch_that_reaches_out_of_the_repository_is_refused_and_changes_nothing(text, repo, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    patch = tmp_path / "hostile.diff"
    patch.write_text(text)
    before = repo.footprint()
    with pytest.raises((ConflictError, WorkFailed)):
        apply_patch(repo.path, patch, repo.head)
    with pytest.raises((ConflictError, WorkFailed)):
        make_branch(repo.path, "evil", [Piece("evil", patch, repo.head)])
    assert repo.footprint() == before
    assert list((tmp_path / "elsewhere").iterdir()) == []
