"""Keeping what a tree holds and no patch has: changed files, ignored files an agent made, commits of its own."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from delegation.checkout.difference import copied_index, scratch_index
from delegation.checkout.git import Location, git_bytes, locate
from delegation.checkout.ignored_outputs import ignored_outputs
from delegation.checkout.ledger import Entry, Ledger
from delegation.checkout.private_git import PrivateGit, borrow_objects, make_git_dir
from delegation.checkout.publish import import_commit, ref_of, set_ref
from delegation.checkout.state import files_on_disk, record_state
from delegation.checkout.submodules import changed_submodules
from delegation.checkout.tree_content import new_folder
from delegation.errors import NotFoundError, WorkFailed

_MOST_HISTORIES = 20
_MOST_LOOKED_AT = 500
_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def tree_in(entry: Entry) -> str | None:
    """The id of what lies in a tree now; None where there is none of ours to judge. Raises WorkFailed('checkout')."""
    private_git = _private_git(entry)
    if entry.state == "making" or entry.removed or entry.isolation == "in_place" or not private_git.tree.is_dir():
        return None
    return _tree_now(private_git, _seeded(entry))


def unsaved_work(entry: Entry, tree: str | None = None) -> str | None:
    """What a tree holds that neither its base nor a stored patch has; None when nothing.

    Only the user's own eyes can judge files changed after the patch was taken, so a tree like that is not removed
    without being asked for. `tree` is what `tree_in` gave, where that is known already. Raises WorkFailed('checkout')
    where git cannot tell.
    """
    tree = tree or tree_in(entry)
    if tree in (None, entry.captured_tree, entry.snapshot_tree):
        return None
    return "files changed after the last patch was taken" if entry.captured_tree else "changed files, and no patch"


def save_work(ledger: Ledger, entry: Entry, tree: str | None = None) -> Entry:
    """Put all that nothing else holds under refs of ours; gives the entry that names them. Raises WorkFailed."""
    tree = tree or tree_in(entry)
    if tree is None:
        return entry
    private_git = _private_git(entry)
    repo = Path(entry.repo)
    refs = dict.fromkeys(entry.saved_refs)
    for name, commit, exclude in _unsaved_commits(private_git, entry, tree):
        import_commit(private_git, repo, commit, exclude)
        set_ref(repo, ref_of(entry.name, name), commit)
        refs[ref_of(entry.name, name)] = None
    return ledger.change(entry.name, saved_refs=tuple(refs)) if refs else entry


def restored_into(entry: Entry, to: Path) -> tuple[str, ...]:
    """Check out the saved files (not the histories) into a new folder. Raises NotFoundError when none were saved."""
    files = ref_of(entry.name, "files")
    repo = Path(entry.repo)
    if files not in entry.saved_refs or not repo.is_dir():
        kept = ", ".join(entry.saved_refs) or "nothing"
        raise NotFoundError(f"no files were saved of the tree {entry.name!r}; kept are: {kept}")
    _check_out(repo, git_bytes("rev-parse", files, cwd=repo).decode().strip(), None, to)
    return entry.saved_refs


def copied_into(entry: Entry, to: Path) -> None:
    """Write what lies in a tree now, with the ignored files the agent made, into a new folder. Raises WorkFailed."""
    private_git = _private_git(entry)
    tree = _tree_now(private_git, _seeded(entry))
    source = locate(Path(entry.repo))
    submodules = changed_submodules(private_git, source, tree) if source else {}
    whole = _with_files(private_git, tree, ignored_outputs(private_git, _seeded(entry)).names, submodules)
    new_folder(to)
    with scratch_index(PrivateGit(private_git.git_dir, to, private_git.index), whole) as index:
        index.output("checkout-index", "--all", "--force", timeout_seconds=1800)


def patched_into(repo: Path, base_commit: str, patch_file: Path | None, to: Path) -> None:
    """Check out a commit with a patch applied into a new folder. Raises WorkFailed('checkout'), UsageError."""
    _check_out(repo, base_commit, patch_file, to)


def _check_out(repo: Path, commit: str, patch_file: Path | None, to: Path) -> None:
    source = locate(repo)
    if source is None:
        raise NotFoundError(f"the repository {str(repo)!r} that holds the work is gone")
    new_folder(to)
    with tempfile.TemporaryDirectory(prefix="delegate-restore-") as folder:
        private_git = make_git_dir(Path(folder) / "git", to, source)
        private_git.output("read-tree", commit)
        if patch_file:
            private_git.output("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch_file.resolve()))
        private_git.output("checkout-index", "--all", "--force", timeout_seconds=1800)


def _unsaved_commits(private_git: PrivateGit, entry: Entry, tree: str) -> Iterator[tuple[str, str, str | None]]:
    """Name, commit and what is known already, of everything worth a ref."""
    ignored = ignored_outputs(private_git, _seeded(entry)).names
    source = locate(Path(entry.repo))
    submodules = changed_submodules(private_git, source, tree) if source else {}
    if tree not in (entry.captured_tree, entry.snapshot_tree) or ignored or submodules:
        whole = _with_files(private_git, tree, ignored, submodules)
        yield "files", private_git.commit(whole, entry.base_commit, f"What lay in {entry.root}"), entry.base_commit
    yield from _own_history(private_git, entry)


def _seeded(entry: Entry) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(name) for name in entry.seeded)


def _tree_now(private_git: PrivateGit, seeded: frozenset[bytes]) -> str:
    with copied_index(private_git) as working:
        return record_state(working, seeded).tree


def _with_files(private_git: PrivateGit, tree: str, names: tuple[bytes, ...], submodules: dict[bytes, str]) -> str:
    """The tree with ignored files in it, and with the files of changed submodules instead of their links."""
    with scratch_index(private_git, tree) as whole:
        for path, content in submodules.items():
            whole.output("update-index", "--force-remove", "-z", "--stdin", stdin=path + b"\0")
            whole.output("read-tree", f"--prefix={os.fsdecode(path)}/", content)
        if names:
            stdin = b"".join(name + b"\0" for name in names)
            whole.output("update-index", "--add", "--replace", "-z", "--stdin", stdin=stdin)
        return whole.word("write-tree")


def _own_history(private_git: PrivateGit, entry: Entry) -> Iterator[tuple[str, str, str | None]]:
    """Commits of the agent's (branches, stashes, a detached HEAD). Its refs are read as text and its objects through a
    git directory of ours: nothing the agent configured is ever run."""
    git_dir = Path(entry.place) / "git"
    source = locate(Path(entry.repo))
    if not git_dir.is_dir() or source is None:
        return
    unknown = _unknown(private_git, _tips(git_dir))
    if not unknown:
        return
    theirs = _reading(private_git, git_dir, source)
    whole = [id_ for id_ in unknown if theirs.ask("rev-list", "--objects", "--quiet", id_).exit_code == 0]
    ends = theirs.output("merge-base", "--independent", *whole).decode().split() if whole else []
    for number, commit in enumerate(ends[:_MOST_HISTORIES]):
        wanted = f"{commit}\n^{entry.base_commit}\n".encode()
        pack = theirs.output("pack-objects", "--revs", "--stdout", "--quiet", stdin=wanted)
        private_git.output("unpack-objects", "-q", stdin=pack)
        yield f"history-{number}", commit, entry.base_commit


def _unknown(private_git: PrivateGit, ids: list[str]) -> list[str]:
    """Those that the user's repository does not have."""
    stdin = "".join(f"{id_}\n" for id_ in ids).encode()
    lines = private_git.output("cat-file", "--batch-check", stdin=stdin).decode().splitlines()
    return [line.split()[0] for line in lines if line.endswith(" missing")][:_MOST_LOOKED_AT]


def _reading(private_git: PrivateGit, git_dir: Path, source: Location) -> PrivateGit:
    folder = Path(tempfile.mkdtemp(dir=private_git.git_dir))
    reading = make_git_dir(folder / "git", private_git.tree, source)
    borrow_objects(reading.git_dir, [git_dir / "objects"])
    return reading


def _tips(git_dir: Path) -> list[str]:
    """Ids of all that the agent's refs and their logs name: a stash that is not the newest stands only in a log."""
    folders = ((git_dir / name) for name in ("refs", "logs"))
    files = [folder / os.fsdecode(name) for folder in folders if folder.is_dir() for name in files_on_disk(folder, b"")]
    texts = [path.read_bytes() for path in (git_dir / "HEAD", git_dir / "packed-refs", *files) if path.is_file()]
    words = (word.decode("ascii", "replace") for text in texts for word in text.split())
    return list(dict.fromkeys(word for word in words if _ID.fullmatch(word) and set(word) != {"0"}))


def _private_git(entry: Entry) -> PrivateGit:
    private_git = Path(entry.place) / "private-git"
    if (
        entry.state == "ready"
        and Path(entry.root).is_dir()
        and not (private_git / "index").is_file()
        and not entry.removed
    ):
        raise WorkFailed("checkout", f"the files at {entry.root!r} cannot be judged: {str(private_git)!r} is gone")
    return PrivateGit(private_git, Path(entry.root), private_git / "index")
