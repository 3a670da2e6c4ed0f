"""A real repository with one commit, and settings whose one model needs a key."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.card import Card
from delegation.settings import Settings, load_settings

ENDPOINT = {
    "DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1",
    "DELEGATE_LOCAL_MODEL": "qwen-x",
    "DELEGATE_LOCAL_KEY": "sekrit",
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def settings_for(tmp_path: Path, state: Path) -> Callable[..., Settings]:
    user = tmp_path / "user"
    user.mkdir()
    (tmp_path / "cwd").mkdir()

    def load(toml: str = "", endpoint: dict[str, str] = ENDPOINT, **variables: str) -> Settings:
        if toml:
            (state / "config").mkdir(parents=True, exist_ok=True)
            (state / "config" / "delegate.toml").write_text(toml)
        environ = {"HOME": str(user), "DELEGATE_HOME": str(state), "PATH": "/usr/bin:/bin", **endpoint, **variables}
        return load_settings(environ, tmp_path / "cwd")

    return load


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "a.txt").write_text("a\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.fixture
def card_for(repo: Path) -> Callable[..., Card]:
    return lambda **fields: Card(**{"task": "do it", "repo": str(repo), **fields})


@pytest.fixture
def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")
