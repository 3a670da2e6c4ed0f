"""Ignore files without git mean what git says they mean."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegation.reading.packing.ignore_rules import IgnoreRules
from delegation.reading.packing.pack import pack

FILES = ("a/b/c.py", "a/b/d.log", "a/x", "b/a/c.py", "b/x", "c.py", "d.log", "a/keep.log", "x/y/z/c.py", "a/b/x/a/b")
PATTERNS = st.sampled_from([
    "*", "*.log", "!*.log", "!keep.log", "a", "a/", "/a", "/a/", "!a/", "a/*", "!a/b", "!a/b/", "a/**", "**/b",
    "**/b/", "a/**/c.py", "!/a", "/*", "!*/", "x", "/x", "!x", "b/*", "[a-c].py", "?.py", "!c.py", "x/y", "x/**/",
    "**/", "!**/", "/**/", "*/", "a/**/ ", "#c", "\\#h", "", "  ", "c.py ", "c.py\\ ", "a/b/", "!/a/b/c.py", "*/x",
    "**", "!**/c.py", "/**/x", "b/a/**", "[", "!", "/", "\\", "[!a].py", "a\r", "!b/\r",
])  # fmt: skip
_LEVELS = st.dictionaries(st.sampled_from(["", "a", "a/b", "b", "x/y"]), st.lists(PATTERNS, max_size=5), max_size=3)


@pytest.fixture(scope="module")
def git_dir(tmp_path_factory) -> Path:
    """A repository without files of its own, to ask about others."""
    folder = tmp_path_factory.mktemp("asked")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder / ".git"


def both(levels: dict[str, list[str]], git_dir: Path) -> tuple[list[str], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "tree")
        for name in FILES:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        for level, lines in levels.items():
            (root / level / ".gitignore").write_bytes("\n".join(lines).encode())
        walked = [file.path for file in pack(root).manifest.files]
        environ = {**os.environ, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root)}
        command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
        listed = subprocess.run(command, env=environ, cwd=root, check=True, capture_output=True).stdout.decode()
        return sorted(walked), sorted(listed.split("\0")[:-1])


@settings(max_examples=40, deadline=None)
@given(levels=_LEVELS)
def test_the_walk_finds_the_files_that_git_finds(git_dir, levels):
    walked, listed = both(levels, git_dir)
    assert walked == listed


@pytest.mark.parametrize(
    "levels",
    [
        {"": ["*", "!*/", "!*.py"]},
        {"": ["*", "!/a/"]},
        {"": ["a/*", "!a/b/"], "a": ["!x"]},
        {"": ["**/b/"], "a": ["!b"]},
        {"": ["/a/b/", "!/a/b/c.py"]},
        {"": ["\ufeff*.log"]},
        {"": ["a/**"], "a": ["!b/"]},
    ],
)
def test_the_walk_agrees_with_git_where_walks_go_wrong(levels, git_dir):
    walked, listed = both(levels, git_dir)
    assert walked == listed


def test_a_rule_of_a_deeper_folder_wins():
    rules = IgnoreRules().below("", b"*.log\n").below("a", b"!keep.log\n")
    assert rules.ignore("a/x.log", is_folder=False)
    assert not rules.ignore("a/keep.log", is_folder=False)
