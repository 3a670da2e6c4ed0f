"""Filling a tree with the files of a commit, without hooks, filters, network or a trace in the user's repository."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.git import Location, ask_git, git_bytes
from delegation.checkout.lfs import fill_in_contents
from delegation.checkout.private_git import PrivateGit, give_to_agent, make_git_dir
from delegation.checkout.submodules import fill_submodules
from delegation.checkout.worktree_include import seed
from delegation.errors import WorkFailed

_WORKERS = 2  # halves the time of a large checkout; git itself uses one below a hundred files


@dataclass(frozen=True)
class Built:
    """A filled tree. `agent` is the git directory its `.git` file names, `seeded` the ignored files copied into it."""

    agent: PrivateGit
    seeded: tuple[bytes, ...]
    warnings: tuple[str, ...]


def build_tree(tree: Path, git_dir: Path, source: Location, commit: str) -> Built:
    """Fill an empty folder with the files of a commit, and make a git directory for it.

    Raises WorkFailed('checkout') when a file is missing afterwards: a tree without its files would give a patch that
    deletes them all.
    """
    agent = make_git_dir(git_dir, tree, source, with_refs=True)
    _keep_sparse(agent, source)
    give_to_agent(agent, commit)
    _fetch_what_is_missing(agent, source, commit)
    agent.output("-c", f"checkout.workers={_WORKERS}", "read-tree", "--reset", "-u", commit, timeout_seconds=1800)
    _check_complete(agent)
    submodules = fill_submodules(agent, source, commit)
    seeded, seed_warnings = seed(source, tree)
    return Built(agent, seeded, (*_filtered(agent, source), *submodules, *seed_warnings))


def new_folder(path: Path) -> Path:
    """A folder that was not there before. Work never goes on in one that somebody else made."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except OSError as error:
        raise WorkFailed("checkout", f"cannot make the tree at {str(path)!r}: {error.strerror}") from error
    return path


def remove_folder(path: Path) -> None:
    """Remove a folder whatever modes an agent gave its parts. Raises WorkFailed('checkout') when some of it stays."""

    def unlock(function: Callable[..., object], name: str, _: object) -> None:
        for locked in (Path(name).parent, Path(name)):
            if locked.is_dir() and not locked.is_symlink():
                locked.chmod(0o700)
        if function is os.rmdir or function is os.unlink:
            function(name)
        elif Path(name).is_dir():
            shutil.rmtree(name)

    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        try:
            shutil.rmtree(path, onerror=unlock)
        except OSError as error:
            raise WorkFailed("checkout", f"cannot remove {str(path)!r}: {error}") from error


def _check_complete(agent: PrivateGit) -> None:
    listed = agent.output("ls-files", "-z", "--deleted", "-t").split(b"\0")[:-1]
    missing = [entry[2:] for entry in listed if not entry.startswith(b"S")]
    missing = [name for name in missing if not os.path.lexists(agent.tree / os.fsdecode(name))]
    if missing:
        first = missing[0].decode("utf-8", "backslashreplace")
        raise WorkFailed(
            "checkout", f"{len(missing)} file(s) are missing in {str(agent.tree)!r}, the first is {first!r}"
        )


def _keep_sparse(agent: PrivateGit, source: Location) -> None:
    """A sparse checkout stays as sparse in its copies."""
    patterns = source.git_dir / "info" / "sparse-checkout"
    if not patterns.is_file() or _setting(source, "core.sparseCheckout") != "true":
        return
    shutil.copyfile(patterns, agent.git_dir / "info" / "sparse-checkout")
    cone = _setting(source, "core.sparseCheckoutCone") or "true"
    with (agent.git_dir / "config").open("a", encoding="utf-8") as config:
        config.write(f"[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = {cone}\n")


def _fetch_what_is_missing(agent: PrivateGit, source: Location, commit: str) -> None:
    """A partial clone lacks file contents; its own git fetches those that this checkout needs, in one request."""
    remote = _promisor(source)
    if not remote:
        return
    agent.output("read-tree", commit)
    entries = agent.output("ls-files", "-z", "-t", "--stage").split(b"\0")[:-1]
    ids = {entry.split()[2] for entry in entries if not entry.startswith(b"S") and entry.split()[1] != b"160000"}
    checked = agent.output("cat-file", "--batch-check", stdin=b"".join(id_ + b"\n" for id_ in sorted(ids)))
    missing = [line.split()[0] + b"\n" for line in checked.splitlines() if line.endswith(b" missing")]
    if missing:
        git_bytes(
            "-c", "fetch.negotiationAlgorithm=noop", "fetch", remote, "--no-tags", "--no-write-fetch-head",
            "--recurse-submodules=no", "--filter=blob:none", "--stdin",
            cwd=source.top, stdin=b"".join(missing), timeout_seconds=1800,
        )  # fmt: skip


def _promisor(source: Location) -> str | None:
    """The remote that promised a partial clone what it lacks; its name stands in the key or, in older ones, apart."""
    listed = ask_git("config", "-z", "--get-regexp", r"^remote\..*\.promisor$", cwd=source.top).stdout.split(b"\0")
    names = [os.fsdecode(line.split(b"\n")[0])[len("remote.") : -len(".promisor")] for line in listed if line]
    return names[0] if names else _setting(source, "extensions.partialClone")


def _setting(source: Location, name: str) -> str | None:
    answer = ask_git("config", "--get", name, cwd=source.top)
    return answer.stdout.decode("utf-8", "replace").strip() or None


def _filtered(agent: PrivateGit, source: Location) -> tuple[str, ...]:
    """Filters (encryption and the like) are never run: files stay in the form that is stored, which a patch leaves
    alone. What LFS keeps is copied from the repository's own store."""
    attributes = [agent.git_dir / "info" / "attributes"]
    listed = agent.output("ls-files", "-z").split(b"\0")
    attributes += [agent.tree / os.fsdecode(name) for name in listed if name.split(b"/")[-1] == b".gitattributes"]
    text = "\n".join(
        path.read_text(encoding="utf-8", errors="replace") for path in attributes if path.is_file()
    )  # fmt: skip
    names = sorted(set(re.findall(r"^[^#\n]*\sfilter=(\S+)", text, re.MULTILINE)))
    filled = fill_in_contents(agent, source) if "lfs" in names else ()
    others = [name for name in names if name != "lfs"]
    if not others:
        return filled
    return (*filled, f"filters are not run ({', '.join(others)}): such files keep their stored form")
