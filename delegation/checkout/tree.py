"""A tree of ours as a value: where its files and its git lie, and what the commands of an agent find there."""

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from delegation.card import Isolation
from delegation.checkout.ledger import Ledger
from delegation.checkout.private_git import AGENT_SETTINGS_FILE, AUTHOR_EMAIL, AUTHOR_NAME, PrivateGit
from delegation.home import Home
from delegation.values import Value


@dataclass(frozen=True)
class GitPlaces:
    """What the agent's git needs: `git_dir` and `objects` to write, `common_dir` (the user's) only to read."""

    git_dir: Path
    common_dir: Path
    objects: Path


class Worktree(Value):
    """A tree of ours. `repo` holds the base and takes the branch: the user's, or our own for a plain folder."""

    delegation_id: str
    root: str = Field(description="Top folder of the files, as the repository's own top.")
    workdir: str = Field(description="Folder the agent starts in, absolute.")
    repo: str
    source: str = Field(description="The user's checkout or folder that the work is for.")
    common_dir: str
    base_commit: str
    snapshot_tree: str
    isolation: Isolation
    git_dir: str | None
    objects: str | None
    place: str
    home: str
    seeded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the ledger calls the tree."""
        return tree_name(self.delegation_id, Path(self.place))

    @property
    def private_git(self) -> PrivateGit:
        """Our own git directory over the tree, out of the agent's reach."""
        return private_git_at(Path(self.place), Path(self.root))

    @property
    def ledger(self) -> Ledger:
        return ledger_at(self.home)


def git_places(worktree: Worktree) -> GitPlaces | None:
    """Where the agent's git lies; None in place, where the agent uses the user's own."""
    if worktree.git_dir is None or worktree.objects is None:
        return None
    return GitPlaces(Path(worktree.git_dir), Path(worktree.common_dir), Path(worktree.objects))


def agent_git_environment(worktree: Worktree) -> dict[str, str]:
    """Variables for the agent's shell: an identity, no prompts, no signing, nobody's global settings."""
    if worktree.git_dir:
        return git_environment(Path(worktree.git_dir))
    identity = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in _IDENTITY.items()}
    return _AGENT_ENVIRONMENT | {"GIT_CONFIG_GLOBAL": os.devnull} | identity


def git_environment(git_dir: Path) -> dict[str, str]:
    """The same for commands in a fresh checkout, whose git directory is `checkout`/.git."""
    return _AGENT_ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(git_dir / AGENT_SETTINGS_FILE)}


def private_git_at(place: Path, root: Path) -> PrivateGit:
    return PrivateGit(place / "private-git", root, place / "private-git" / "index")


def tree_name(delegation_id: str, place: Path) -> str:
    """A delegation that is started over gets a second tree, in a place whose name says so (`<id>.2`)."""
    return place.name if place.name.startswith(f"{delegation_id}.") else delegation_id


def ledger_at(home: str) -> Ledger:
    return Ledger(Home(Path(home), Path(home) / "config" / "delegate.toml"))


def seeded_names(worktree: Worktree) -> frozenset[bytes]:
    return frozenset(bytes.fromhex(name) for name in worktree.seeded)


_IDENTITY = {"NAME": AUTHOR_NAME, "EMAIL": AUTHOR_EMAIL}
_AGENT_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
}
