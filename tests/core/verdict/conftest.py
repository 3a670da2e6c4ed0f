"""A repository, a change to it, and one call that judges the change."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from delegation.receipt import Verification
from delegation.verdict import verify

PYTEST = f"{sys.executable} -m pytest -q -p no:hypothesispytest -p no:anyio"


def git(*args: str, cwd: Path) -> bytes:
    env = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    return subprocess.run(["git", *args], cwd=cwd, env=env, check=True, capture_output=True).stdout


def write(root: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write the files; None deletes one."""
    for name, content in files.items():
        path = root / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if content[:2] in ("#!", b"#!"):
            path.chmod(0o755)


@dataclass
class Bench:
    """A repository under test and the folders of a verification."""

    root: Path
    numbers: Iterator[int] = field(default_factory=count)
    options: dict[str, object] = field(default_factory=dict)

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def record(self) -> Path:
        return self.root / "record"

    def commit(self, files: Mapping[str, str | bytes]) -> str:
        if not self.repo.exists():
            self.repo.mkdir()
            git("init", "-q", "-b", "main", cwd=self.repo)
        write(self.repo, files)
        git("add", "-A", "-f", cwd=self.repo)
        git("commit", "-q", "-m", "base", cwd=self.repo)
        return git("rev-parse", "HEAD", cwd=self.repo).decode().strip()

    def patch(self, changes: Mapping[str, str | bytes | None]) -> Path:
        """The changes as a patch file, made in a clone so that the repository stays as it is."""
        number = next(self.numbers)
        clone, file = self.root / f"author{number}", self.root / f"change{number}.diff"
        git("clone", "-q", str(self.repo), str(clone), cwd=self.root)
        write(clone, changes)
        git("add", "-A", "-f", cwd=clone)
        file.write_bytes(git("diff", "--cached", "--binary", "--no-color", cwd=clone))
        shutil.rmtree(clone)
        return file

    def verify(
        self, changes: Mapping[str, str | bytes | None] | None, command: str = PYTEST, **options: object
    ) -> Verification:
        number = next(self.numbers)
        arguments: dict[str, object] = {
            "repo": self.repo,
            "base_commit": git("rev-parse", "HEAD", cwd=self.repo).decode().strip(),
            "patch_file": None if changes is None else self.patch(changes),
            "command": command,
            "setup": None,
            "wants": (),
            "accept": "pass",
            "place": self.root / f"v{number}",
            "baselines": self.root / "home" / "baselines",
            "record_dir": self.record,
            "confinement": "auto",
            "network": False,
            "timeout_seconds": 60.0,
        }
        return verify(**(arguments | self.options | options))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One repository for many judgements of a module, so that its base is run once."""
    return Bench(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def new_bench() -> type[Bench]:
    """For modules that need several repositories."""
    return Bench


@pytest.fixture(scope="module")
def rust_home() -> Iterator[None]:
    """A rustup proxy looks for its toolchains in the home, which is another one here."""
    cargo = shutil.which("cargo")
    toolchains = Path(cargo).parents[2] / ".rustup" if cargo else Path("/none")
    with pytest.MonkeyPatch.context() as patched:
        if toolchains.is_dir():
            patched.setenv("RUSTUP_HOME", str(toolchains))
        yield
