"""Real repositories to work on."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from delegation.card import Isolation
from delegation.checkout.patch import Patch, apply_in, collect
from delegation.checkout.worktree import Worktree, create, fresh_checkout
from delegation.home import Home
from delegation.ids import new_id


class Repo:
    """A repository (or folder) of the user's, driven with plain git and the user's own settings."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *args: str, cwd: Path | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.path, check=check, capture_output=True, env={**os.environ, "LC_ALL": "C"}
        )
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, name: str, content: bytes | str = "x\n") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def commit(self, message: str = "change") -> str:
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def footprint(self) -> dict[str, bytes]:
        """Every file of the repository, with its content: what must not change."""
        return {
            str(path.relative_to(self.path)): os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            for path in sorted(self.path.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has its own HOME with the user's git settings in it."""
    home = tmp_path / "user"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    (home / ".gitconfig").write_text(
        "[user]\n\tname = User\n\temail = user@example.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    return home


@pytest.fixture
def user_config(own_home: Path) -> Callable[[str, str], None]:
    def set_(name: str, value: str) -> None:
        subprocess.run(["git", "config", "--global", name, value], check=True)

    return set_


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    return Home(root, root / "config" / "delegate.toml")


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], Repo]:
    def make(name: str) -> Repo:
        repo = Repo(tmp_path / name)
        repo.path.mkdir(parents=True)
        repo.git("init", "-q")
        repo.write("a.py", "".join(f"line {n}\n" for n in range(12)))
        repo.write("pkg/b.py", "".join(f"b {n}\n" for n in range(12)))
        repo.commit("base")
        return repo

    return make


@pytest.fixture
def repo(make_repo: Callable[[str], Repo]) -> Repo:
    return make_repo("repo")


class Trees:
    """Makes trees and patches of them under one home."""

    def __init__(self, home: Home, out: Path) -> None:
        self.home = home
        self.out = out

    def create(
        self,
        repo: Path,
        *,
        base: str | None = None,
        workdir: str = ".",
        isolation: Isolation = "worktree",
        include_dirty: bool = False,
        delegation_id: str | None = None,
    ) -> Worktree:
        id_ = delegation_id or new_id("dg")
        return create(
            delegation_id=id_,
            repo=repo,
            base_commit=base,
            workdir=workdir,
            isolation=isolation,
            include_dirty=include_dirty,
            place=self.home.worktrees / id_,
            home=self.home,
        )

    def collect(self, worktree: Worktree, include: Sequence[str] = ()) -> Patch | None:
        out = self.out / f"{worktree.name}.diff"
        return collect(worktree, out=out, message="What was asked for", include=include)

    def patch(self, worktree: Worktree, include: Sequence[str] = ()) -> Patch:
        patch = self.collect(worktree, include)
        assert patch is not None
        return patch


@pytest.fixture
def trees(home: Home, tmp_path: Path) -> Trees:
    out = tmp_path / "out"
    out.mkdir()
    return Trees(home, out)


def files_of(tree: Path) -> dict[str, tuple[str, bytes]]:
    """Kind and content of everything in a tree but `.git`."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, names in os.walk(os.fsencode(tree)):
        folders[:] = [name for name in folders if name != b".git"]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*names, *links]:
            path = os.path.join(folder, name)
            if name == b".git":
                continue
            key = os.fsdecode(os.path.relpath(path, os.fsencode(tree)))
            if os.path.islink(path):
                found[key] = ("link", os.readlink(path))
            else:
                kind = "program" if os.stat(path).st_mode & 0o100 else "file"
                found[key] = (kind, Path(os.fsdecode(path)).read_bytes())
    return found


@pytest.fixture
def files() -> Callable[[Path], dict[str, tuple[str, bytes]]]:
    return files_of


@pytest.fixture
def round_trip(trees, files, tmp_path: Path):
    """Collects, applies to a fresh checkout of the base, and compares every byte."""

    def check(worktree: Worktree, but: tuple[str, ...] = ()):
        patch = trees.patch(worktree)
        with fresh_checkout(Path(worktree.repo), patch.base_commit, tmp_path / "fresh") as checkout:
            apply_in(checkout, Path(patch.path))
            given = {name: file for name, file in files(checkout).items() if name not in but}
        wanted = {name: file for name, file in files(Path(worktree.root)).items() if name not in but}
        assert given == wanted
        return patch

    return check
