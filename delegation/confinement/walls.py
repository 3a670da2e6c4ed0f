"""What a confined command may see and touch, whoever puts the walls up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from delegation.confinement.toolchains import toolchain_folders


@dataclass(frozen=True)
class Walls:
    """Absolute paths. The system's programs are always readable; everything else is hidden unless named here.

    Of two paths one below the other, the longer one decides; for the same path writable beats readable beats hidden.
    `temp` (also writable) appears as /tmp as well where the confiner can do that.
    """

    writable: tuple[Path, ...]
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = True
    temp: Path | None = None


class Confiner(Protocol):
    """Puts walls around a command. `contains_processes`: when its first process ends, the kernel ends all others."""

    @property
    def name(self) -> str: ...

    @property
    def contains_processes(self) -> bool: ...

    def wrap(self, argv: Sequence[str], *, walls: Walls, cwd: Path) -> list[str]:
        """The argument list that runs `argv` in `cwd` behind the walls. Raises WorkFailed("confinement")."""
        ...


class GitPlaces(Protocol):
    """Where the git data of a worktree lies: its own folder, the repository's, and where its new objects go."""

    @property
    def git_dir(self) -> Path: ...

    @property
    def common_dir(self) -> Path: ...

    @property
    def objects(self) -> Path: ...


def agent_walls(
    *,
    tree: Path,
    temp: Path,
    home: Path,
    git: GitPlaces | None,
    network: bool,
    our_home: Path,
    env: Mapping[str, str],
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
) -> Walls:
    """The walls around what an agent, a setup or a verify runs in `tree`.

    Writable: the tree, the private `temp` and `home`, the worktree's own git folder and object store. Read-only: the
    rest of the repository's git data (and its alternates), the toolchains on `env`'s PATH. Hidden: the user's home
    otherwise, and `our_home` with secrets, sockets and state. A tree that is a repository of its own and borrows
    objects needs the store it borrows from in `readable`.
    """
    own = [tree, temp, home, *writable, *([git.git_dir, git.objects] if git else ())]
    shared = [*_git_folders(git), *readable]
    tools = [
        folder
        for folder in toolchain_folders(env)
        if not any(folder.is_relative_to(own) for own in under_both_names([tree, our_home]))
    ]
    return Walls(
        writable=under_both_names(own),
        readable=tuple(dict.fromkeys([*under_both_names(shared), *tools])),
        hidden=under_both_names([our_home, *_user_homes()]),
        network=network,
        temp=temp.resolve(),
    )


def _git_folders(git: GitPlaces | None) -> list[Path]:
    """Git data outside the tree that reading needs.

    Only what the agent cannot write is followed: from its own `.git` it could point us at anything.
    """
    return [] if git is None else [git.common_dir, *_alternates(git.common_dir / "objects")]


def _alternates(objects: Path, depth: int = 5) -> list[Path]:
    """Stores that `objects` borrows from, and those that they do; git itself follows five."""
    listed = objects / "info" / "alternates"
    if not depth or not listed.is_file():
        return []
    lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
    stores = [objects / line for line in lines if line and not line.startswith("#")]
    existing = [store for store in stores if store.is_dir()]
    return [*existing, *(deeper for store in existing for deeper in _alternates(store, depth - 1))]


def _user_homes() -> list[Path]:
    home = Path.home()
    return [] if home == Path(home.anchor) else [home]


def under_both_names(paths: Sequence[Path]) -> tuple[Path, ...]:
    """As written and resolved: programs use the one, git writes down the other."""
    return tuple(dict.fromkeys(name for path in paths for name in (path, path.resolve())))
