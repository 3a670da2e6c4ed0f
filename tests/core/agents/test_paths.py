"""Nothing outside the working tree can be named, by any spelling; what is inside can, by any."""

import os
import socket
import threading
from pathlib import Path, PurePosixPath

import pytest

from delegation.agents.tools.answer import ToolProblem
from delegation.agents.tools.descriptor_tree import DescriptorTree
from delegation.agents.tools.resolved_tree import ResolvedTree
from delegation.agents.tools.tree import Tree, tree_at

LIMIT = 1_000_000


@pytest.fixture(params=[DescriptorTree, ResolvedTree])
def tree(root: Path, request: pytest.FixtureRequest) -> Tree:
    return request.param(root, PurePosixPath())


def listing(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file())


ESCAPES = [
    "../outside/f",
    "../../outside/f",
    "a/../../outside/f",
    "../tree-evil/f",
    "{parent}/tree-evil/f",
    "{parent}/outside/f",
    "/etc/passwd",
    "~/.ssh/id_rsa",
    "~",
    "file:///etc/passwd",
    "C:\\x",
    "",
    "  ",
    ".",
    "..",
    "a\0b",
    "a\ud800b",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leaves_the_tree_is_refused_by_name_and_nothing_is_made(tree: Tree, root: Path, path: str):
    for name in ("outside", "tree-evil"):
        (root.parent / name).mkdir()
        (root.parent / name / "f").write_text("theirs")
    asked = path.format(parent=root.parent)
    before = listing(root.parent)
    for act in (lambda: tree.read(asked, LIMIT), lambda: tree.write(asked, b"x")):
        with pytest.raises(ToolProblem) as problem:
            act()
        assert repr(asked) in str(problem.value) or "empty" in str(problem.value)
    assert listing(root.parent) == before


def test_the_sibling_with_the_same_beginning_is_not_inside(tree: Tree, root: Path):
    evil = root.parent / "tree-evil"
    evil.mkdir()
    with pytest.raises(ToolProblem, match="outside the working tree"):
        tree.write(str(evil / "f"), b"x")
    assert list(evil.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["sub/../ok.txt", "./ok.txt", "{root}/ok.txt", "sub//..//ok.txt", "{root}/sub/../ok.txt"]
)
def test_other_spellings_of_a_path_inside_work(tree: Tree, root: Path, path: str):
    tree.write(path.format(root=root), b"fine")
    assert (root / "ok.txt").read_bytes() == b"fine"
    assert tree.read(path.format(root=root), LIMIT).path == "ok.txt"


def test_a_link_to_a_folder_outside_is_not_written_through(tree: Tree, root: Path):
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "d").symlink_to(outside)
    (root / "far").symlink_to("/")
    for path in ("d/evil", f"far{outside}/evil", "d/new/evil"):
        with pytest.raises(ToolProblem):
            tree.write(path, b"x")
    assert list(outside.iterdir()) == []


def test_a_dangling_link_to_outside_is_refused_and_its_target_not_made(tree: Tree, root: Path):
    target = root.parent / "new.txt"
    (root / "absolute").symlink_to(target)
    (root / "relative").symlink_to("../new.txt")
    for path in ("absolute", "relative"):
        with pytest.raises(ToolProblem, match="outside"):
            tree.write(path, b"x")
    assert not target.exists()


def test_a_link_to_a_file_outside_is_not_read(tree: Tree, root: Path):
    (root.parent / "secret").write_text("hush")
    (root / "link").symlink_to("../secret")
    with pytest.raises(ToolProblem, match="outside"):
        tree.read("link", LIMIT)


def test_links_inside_the_tree_are_followed_and_stay_links(tree: Tree, root: Path):
    (root / "real").mkdir()
    (root / "real" / "f").write_text("old")
    (root / "folder").symlink_to("real")
    (root / "up").mkdir()
    (root / "up" / "file").symlink_to("../real/f")
    (root / "absolute").symlink_to(root / "real" / "f")
    assert tree.read("folder/f", LIMIT).data == b"old"
    tree.write("up/file", b"new")
    assert (root / "real" / "f").read_text() == "new"
    assert (root / "up" / "file").is_symlink()
    assert tree.read("absolute", LIMIT).data == b"new"


def test_a_circle_of_links_is_an_answer(tree: Tree, root: Path):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(ToolProblem, match="symbolic link"):
        tree.read("a", LIMIT)


def test_special_files_are_refused_at_once(tree: Tree, root: Path):
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    (root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        for path, word in [("pipe", "pipe"), ("socket", "socket"), ("folder", "folder"), ("zero", "outside")]:
            for act in (lambda path=path: tree.read(path, LIMIT), lambda path=path: tree.write(path, b"x")):
                with pytest.raises(ToolProblem, match=word):
                    act()


def test_a_folder_swapped_for_a_link_again_and_again_never_shows_what_is_outside(root: Path):
    outside, link, kept = root.parent / "outside", root / "link", root / "kept"
    for folder, text in ((outside, "theirs"), (root / "d", "ours")):
        folder.mkdir()
        (folder / "f").write_text(text)
    link.symlink_to(outside)
    tree, stop = DescriptorTree(root, PurePosixPath()), threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "d").rename(kept)
            link.rename(root / "d")
            (root / "d").rename(link)
            kept.rename(root / "d")

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen, refused, rounds = set[bytes](), 0, 0
    try:
        while rounds < 2000 or (rounds < 100_000 and not (refused and seen)):
            rounds += 1
            try:
                seen.add(tree.read("d/f", LIMIT).data)
            except ToolProblem:
                refused += 1
    finally:
        stop.set()
        swapper.join()
    assert seen == {b"ours"}
    assert refused


def test_gits_own_folder_is_not_written(tree: Tree, root: Path):
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    for path in (".git/config", ".git/hooks/pre-commit", ".GIT/config", "sub/.git"):
        with pytest.raises(ToolProblem, match="git"):
            tree.write(path, b"x")
    assert listing(root) == [(".git/config", b"[core]\n")]
    assert tree.read(".git/config", LIMIT).data == b"[core]\n"


def test_a_hard_link_to_a_file_outside_is_replaced_not_written_through(tree: Tree, root: Path):
    outside = root.parent / "theirs"
    outside.write_text("theirs")
    os.link(outside, root / "mine")
    tree.write("mine", b"new")
    assert outside.read_text() == "theirs"
    assert (root / "mine").read_text() == "new"


def test_a_write_keeps_the_mode_and_leaves_nothing_beside(tree: Tree, root: Path):
    script = root / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    tree.write("run.sh", b"#!/bin/sh\nexit 1\n")
    assert script.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in root.iterdir()] == ["run.sh"]


def test_paths_begin_in_the_working_folder_and_may_go_up_to_the_root(root: Path):
    (root / "app").mkdir()
    tree = tree_at(root, "app")
    assert tree.write("x.py", b"1").path == "x.py"
    assert tree.write("../y.py", b"1").path == "../y.py"
    assert {path.name for path in root.iterdir()} == {"app", "y.py"}
    with pytest.raises(ToolProblem):
        tree.write("../../z.py", b"1")


def test_a_missing_file_is_answered_with_its_neighbours(tree: Tree, root: Path):
    (root / "pkg").mkdir()
    for number in range(25):
        (root / "pkg" / f"m{number:02}.py").touch()
    with pytest.raises(ToolProblem) as problem:
        tree.read("pkg/m.py", LIMIT)
    assert "m00.py" in str(problem.value)
    assert "m19.py and 5 more" in str(problem.value)
    assert "m20.py" not in str(problem.value)


def test_no_descriptor_is_left_open(root: Path):
    tree = DescriptorTree(root, PurePosixPath())
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        tree.write(f"a/b/{number}", b"x")
        tree.read(f"a/b/{number}", LIMIT)
        with pytest.raises(ToolProblem):
            tree.read("a/b/none/deeper", LIMIT)
    assert len(os.listdir("/proc/self/fd")) == before
