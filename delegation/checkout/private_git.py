"""Git directories of our own: objects are borrowed from the user's repository, nothing is ever written into it.

A tree of ours has two. The agent's is reached by the tree's `.git` file: its commits, stashes, branches and settings
stay in it. The private one is out of the agent's reach: whatever an agent does to its git, a patch is made.

A linked worktree with a private object directory was tried and given up: while the agent's HEAD names an object that
only the private store has, the user's `git gc`, `git fsck` and `git log --all` fail with "bad object worktrees/x/HEAD";
and `GIT_OBJECT_DIRECTORY` in the agent's shell breaks every other repository that a test suite makes there.
"""

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from delegation.checkout.git import Answer, Location, ask_git, git_bytes

AUTHOR_NAME, AUTHOR_EMAIL = "delegate", "delegate@localhost"
_SETTINGS = f"""
[core]
\texcludesFile = {os.devnull}
\tattributesFile = {os.devnull}
\thooksPath = {os.devnull}
\tfsmonitor = false
\tautocrlf = false
[user]
\tname = {AUTHOR_NAME}
\temail = {AUTHOR_EMAIL}
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
"""
# Elsewhere git must refuse names that a file system takes for `.git`; here it would silently leave files out.
_ANY_NAME = """\
[core]
\tprotectNTFS = false
\tprotectHFS = false
"""
_AGENT_SETTINGS = f"""\
[user]
\tname = {AUTHOR_NAME}
\temail = {AUTHOR_EMAIL}
[init]
\tdefaultBranch = main
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
[advice]
\tdetachedHead = false
[safe]
\tdirectory = *
"""
AGENT_SETTINGS_FILE = "agent.gitconfig"


@dataclass(frozen=True)
class PrivateGit:
    """A git directory of ours, pinned to the tree and the index it works on. It reads no settings but its own."""

    git_dir: Path
    tree: Path
    index: Path
    options: tuple[str, ...] = ()

    def with_index(self, index: Path) -> "PrivateGit":
        return replace(self, index=index)

    def ask(self, *args: str, stdin: bytes | None = None, timeout_seconds: float = 600) -> Answer:
        return ask_git(
            *self.options, *args, cwd=self._cwd, env=self.environment, stdin=stdin, timeout_seconds=timeout_seconds
        )

    def output(self, *args: str, stdin: bytes | None = None, timeout_seconds: float = 600) -> bytes:
        return git_bytes(
            *self.options, *args, cwd=self._cwd, env=self.environment, stdin=stdin, timeout_seconds=timeout_seconds
        )

    def word(self, *args: str, stdin: bytes | None = None) -> str:
        """Output that is one word, such as an id."""
        return self.output(*args, stdin=stdin).decode("ascii").strip()

    def commit(self, tree: str, parent: str | None, message: str) -> str:
        """A commit by delegate, signed by nobody and seen by no hook."""
        parents = ("-p", parent) if parent else ()
        return self.word("commit-tree", tree, *parents, stdin=message.encode("utf-8", "replace"))

    @property
    def environment(self) -> dict[str, str]:
        return PRIVATE | {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(self.index),
        }

    @property
    def _cwd(self) -> Path:
        return self.tree if self.tree.is_dir() else self.git_dir


# Neither the user's nor the machine's settings have a say in what is ours.
PRIVATE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}


def make_git_dir(git_dir: Path, tree: Path, source: Location | None, *, with_refs: bool = False) -> PrivateGit:
    """A new git directory over a tree that borrows the source's objects; `with_refs` copies its branches and tags."""
    private_git = PrivateGit(git_dir, tree, git_dir / "index")
    git_dir.mkdir(parents=True)
    object_format = f"--object-format={_object_format(source)}"
    git_bytes("init", "--quiet", "--template=", object_format, cwd=git_dir, env=private_git.environment)
    with (git_dir / "config").open("a", encoding="utf-8") as config:
        config.write(_SETTINGS + (_ANY_NAME if sys.platform == "linux" else ""))
    (git_dir / "info").mkdir(exist_ok=True)
    if source:
        borrow_objects(git_dir, object_stores(source.objects))
        _copy_local_files(git_dir, source)
        if with_refs:
            _copy_refs(git_dir, source)
    return private_git


def give_to_agent(private_git: PrivateGit, head: str) -> None:
    """Make a git directory the tree's own: its `.git` file, a detached HEAD, an identity for the agent's commits."""
    (private_git.git_dir / "HEAD").write_text(f"{head}\n", encoding="ascii")
    (private_git.git_dir / AGENT_SETTINGS_FILE).write_text(_AGENT_SETTINGS, encoding="utf-8")
    if private_git.git_dir != private_git.tree / ".git":
        (private_git.tree / ".git").write_bytes(b"gitdir: " + os.fsencode(private_git.git_dir) + b"\n")


def borrow_objects(git_dir: Path, stores: list[Path]) -> None:
    """Let a git directory read other object stores too. A path is quoted where git would misread it."""
    listed = git_dir / "objects" / "info" / "alternates"
    present = listed.read_bytes().splitlines() if listed.is_file() else []
    lines = [quoted(os.fsencode(store)) for store in stores]
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_bytes(b"".join(line + b"\n" for line in dict.fromkeys([*present, *lines])))


def object_stores(objects: Path) -> list[Path]:
    """An object directory and all it borrows from itself, absolute: git refuses relative ones below the first level."""
    found: list[Path] = []
    pending = [objects]
    while pending:
        store = pending.pop(0).resolve()
        if store in found:
            continue
        found.append(store)
        listed = store / "info" / "alternates"
        lines = listed.read_bytes().splitlines() if listed.is_file() else []
        pending += [store / os.fsdecode(line) for line in lines if line and line[:1] not in (b"#", b'"')]
    return found


def quoted(path: bytes) -> bytes:
    """A path as git reads it back from a line of text: C-style quotes where it holds anything unusual."""
    if path[:1] not in (b'"', b"#") and all(32 <= byte < 127 and byte != 92 for byte in path):
        return path
    plain = [bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in path]
    return b'"' + b"".join(plain) + b'"'


def _object_format(source: Location | None) -> str:
    if source is None:
        return "sha1"
    return git_bytes("rev-parse", "--show-object-format", cwd=source.top).decode().strip()


def _copy_local_files(git_dir: Path, source: Location) -> None:
    """What a repository knows beside its objects: where a shallow history ends, its own ignore rules and attributes."""
    for name in ("shallow", "info/exclude", "info/attributes"):
        if (source.common_dir / name).is_file():
            shutil.copyfile(source.common_dir / name, git_dir / name)


def _copy_refs(git_dir: Path, source: Location) -> None:
    listed = git_bytes(
        "for-each-ref", "--format=%(objectname) %(refname) %(symref)", "refs/heads", "refs/tags", "refs/remotes",
        cwd=source.top,
    )  # fmt: skip
    plain = [line.rstrip() for line in listed.splitlines() if line.count(b" ") == 2 and line.endswith(b" ")]
    (git_dir / "packed-refs").write_bytes(b"".join(line + b"\n" for line in plain))
