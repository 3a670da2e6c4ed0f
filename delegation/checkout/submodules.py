"""Submodules of a tree: filled from the objects the user's checkout already has, never from a network."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.git import Location, locate
from delegation.checkout.private_git import PrivateGit, borrow_objects, give_to_agent, make_git_dir, object_stores
from delegation.checkout.state import record_state
from delegation.errors import DelegateError


@dataclass(frozen=True)
class Submodule:
    """A gitlink of a commit: where it lies, what it points at, what `.gitmodules` calls it."""

    path: bytes
    commit: str
    name: str | None


def submodules_of(private_git: PrivateGit, commit: str) -> tuple[Submodule, ...]:
    """The gitlinks of a commit; one that `.gitmodules` does not list has no name."""
    if b"160000" not in (listed := private_git.output("ls-tree", "-r", "-z", commit)):
        return ()
    entries = [entry.split(b"\t", 1) for entry in listed.split(b"\0") if entry.startswith(b"160000 ")]
    names = _names(private_git, commit)
    return tuple(Submodule(path, meta.split()[2].decode(), names.get(path)) for meta, path in entries)


def fill_submodules(agent: PrivateGit, source: Location, commit: str) -> tuple[str, ...]:
    """Give each submodule its files and a git directory of its own below the agent's. Warns of those left empty."""
    warnings: list[str] = []
    for submodule in submodules_of(agent, commit):
        problem = _fill(agent, source, submodule)
        if problem:
            warnings.append(f"submodule {_shown(submodule.path)} is empty in the tree: {problem}")
    return tuple(warnings)


def changed_submodules(private_git: PrivateGit, source: Location, tree: str) -> dict[bytes, str]:
    """Submodules whose files are not those of the commit that `tree` records, each with the tree id of what is there.

    A patch of the repository can only move a submodule to another commit: edits inside of it need a word.
    """
    changed: dict[bytes, str] = {}
    for submodule in submodules_of(private_git, tree):
        folder = private_git.tree / os.fsdecode(submodule.path)
        if not folder.is_dir() or folder.is_symlink() or not any(folder.iterdir()):
            continue
        home = _where_its_objects_are(source, submodule)
        content = _content(private_git, folder, submodule.commit, home)
        if content is not None:
            changed[submodule.path] = content
    return changed


def _content(private_git: PrivateGit, folder: Path, commit: str, home: Location | None) -> str | None:
    """The tree id of a submodule's files where it differs from the commit's; recorded in our store."""
    if home:
        borrow_objects(private_git.git_dir, object_stores(home.objects))
    with tempfile.TemporaryDirectory(dir=private_git.git_dir) as aside:
        inside = PrivateGit(private_git.git_dir, folder, Path(aside) / "index", private_git.options)
        known = inside.ask("cat-file", "-e", f"{commit}^{{commit}}").exit_code == 0
        inside.output("read-tree", commit if known else "--empty")
        found = record_state(inside).tree
        return None if known and found == inside.word("rev-parse", f"{commit}^{{tree}}") else found


def submodule_git_dir(git_dir: Path, path: bytes) -> Path:
    """Where a tree of ours keeps the git directory of the submodule at a path."""
    return git_dir / "modules" / path.hex()


def _fill(agent: PrivateGit, source: Location, submodule: Submodule) -> str | None:
    tree = agent.tree / os.fsdecode(submodule.path)
    try:
        home = _where_its_objects_are(source, submodule)
        if home is None:
            return "it was never initialised in the repository (git submodule update --init)"
        tree.mkdir(parents=True, exist_ok=True)
        private_git = make_git_dir(submodule_git_dir(agent.git_dir, submodule.path), tree, home, with_refs=True)
        if private_git.ask("cat-file", "-e", f"{submodule.commit}^{{commit}}").exit_code != 0:
            return f"commit {submodule.commit} is not in the repository's copy of it"
        give_to_agent(private_git, submodule.commit)
        private_git.output("read-tree", "--reset", "-u", submodule.commit)
        inner = fill_submodules(private_git, home, submodule.commit)
    except (DelegateError, OSError) as error:
        return str(error)
    return f"inside it: {'; '.join(inner)}" if inner else None


def _where_its_objects_are(source: Location, submodule: Submodule) -> Location | None:
    """The parent keeps a submodule's objects in modules/<name>; an older one in the submodule's own folder."""
    kept = source.common_dir / "modules" / (submodule.name or os.fsdecode(submodule.path))
    if (kept / "HEAD").is_file():
        return Location(kept, kept, kept, bare=True)
    folder = source.top / os.fsdecode(submodule.path)
    return locate(folder) if not source.bare and (folder / ".git").exists() else None


def _names(private_git: PrivateGit, commit: str) -> dict[bytes, str]:
    """Names by path, from the commit's own `.gitmodules`; a name that leaves the modules folder is not believed."""
    answer = private_git.ask(
        "config", "--blob", f"{commit}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"
    )
    pairs = [line.split(b"\n", 1) for line in answer.stdout.split(b"\0") if b"\n" in line]
    named = {path: os.fsdecode(key[len(b"submodule.") : -len(b".path")]) for key, path in pairs}
    return {path: name for path, name in named.items() if ".." not in Path(name).parts and not Path(name).is_absolute()}


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
