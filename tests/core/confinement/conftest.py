"""A delegation's folders below a hidden home, and commands behind walls."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from delegation.confinement import Confiner, GitPlaces, Walls, agent_walls, find_confiner
from delegation.process import Finished, child_environment, make_private_folders, run, shell


@dataclass
class Cell:
    """`user_home` holds secrets and, below it, our home with the delegation's own folders."""

    user_home: Path
    confiner: Confiner
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.tree.mkdir(parents=True)
        make_private_folders(self.place / "home", self.place / "temp")
        self.env = child_environment(home=self.place / "home", temp=self.place / "temp")
        for secret in (self.user_home / ".ssh" / "id_rsa", self.our_home / "secrets" / "abc"):
            secret.parent.mkdir()
            secret.write_text("a secret")

    @property
    def our_home(self) -> Path:
        return self.user_home / ".local" / "share" / "delegate"

    @property
    def place(self) -> Path:
        return self.our_home / "worktrees" / "dg-1"

    @property
    def tree(self) -> Path:
        return self.place / "tree"

    def walls(self, **changes: Any) -> Walls:
        git: GitPlaces | None = changes.pop("git", None)
        options: dict[str, Any] = {
            "tree": self.tree,
            "temp": self.place / "temp",
            "home": self.place / "home",
            "git": git,
            "network": True,
            "our_home": self.our_home,
            "env": self.env,
        }
        return agent_walls(**(options | changes))

    def run(self, command: str | Sequence[str], walls: Walls | None = None, timeout_seconds: float = 20) -> Finished:
        argv = shell(command) if isinstance(command, str) else command
        return run(
            argv,
            cwd=self.tree,
            env=self.env,
            timeout_seconds=timeout_seconds,
            confiner=self.confiner,
            walls=walls or self.walls(),
        )


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Needs walls that work on this machine."""
    confiner = find_confiner("auto")
    if confiner is None:
        pytest.skip("no walls on this machine")
    home = tmp_path / "someone"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Cell(home, confiner)


@dataclass(frozen=True)
class Places:
    """Where the git data of the test's worktree lies."""

    git_dir: Path
    common_dir: Path
    objects: Path

    @property
    def variables(self) -> dict[str, str]:
        """What makes git write its objects to the private store and read the repository's."""
        return {
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.common_dir / "objects"),
        }


def git(*arguments: str, cwd: Path, **env: str) -> str:
    base = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1"} | env
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *identity, *arguments], cwd=cwd, env=base, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def linked(cell: Cell) -> Places:
    """The cell's tree as a linked worktree of a repository below the user's home, detached."""
    repo = cell.user_home / "project"
    repo.mkdir()
    git("init", "-q", cwd=repo)
    (repo / "file").write_text("one\n")
    git("add", ".", cwd=repo)
    git("commit", "-qm", "base", cwd=repo)
    cell.tree.rmdir()
    git("worktree", "add", "-q", "--detach", str(cell.tree), cwd=repo)
    objects = cell.place / "objects"
    objects.mkdir()
    return Places(Path(git("rev-parse", "--absolute-git-dir", cwd=cell.tree)), repo / ".git", objects)
