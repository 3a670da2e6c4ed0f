"""The folders a PATH needs, and no more."""

import os
import sys
from pathlib import Path

import pytest

from delegation.confinement.toolchains import toolchain_folders


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "someone"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def link(path: Path, target: Path | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def shown(home: Path, *folders: str | Path, **env: str) -> set[str]:
    """What is shown below the home, relative to it."""
    path = os.pathsep.join(str(folder) for folder in folders)
    found = toolchain_folders({"PATH": path} | env)
    return {str(folder.relative_to(home)) for folder in found if folder.is_relative_to(home)}


def test_pyenv_is_shown_whole(home):
    program(home / ".pyenv/shims/python")
    program(home / ".pyenv/bin/pyenv")
    (home / ".pyenv/versions").mkdir()
    assert shown(home, home / ".pyenv/shims", home / ".pyenv/bin") == {".pyenv"}


def test_nvm_shows_the_version_on_path(home):
    program(home / ".nvm/versions/node/v20/bin/node")
    assert shown(home, home / ".nvm/versions/node/v20/bin") == {".nvm/versions/node/v20"}


def test_cargo_shows_programs_but_not_the_credentials_beside_them(home):
    program(home / ".cargo/bin/rustup")
    link(home / ".cargo/bin/cargo", "rustup")
    (home / ".cargo/credentials.toml").write_text("token")
    (home / ".rustup").mkdir()
    found = shown(home, home / ".cargo/bin", RUSTUP_HOME=str(home / ".rustup"))
    assert found == {".cargo/bin", ".rustup"}


def test_a_virtual_environment_brings_the_python_it_was_made_from(home):
    program(home / ".share/uv/python/cpython-3.12.5/bin/python3.12")
    (home / ".share/uv/python/cpython-3.12.5/lib").mkdir()
    link(home / ".share/uv/python/cpython-3.12", "cpython-3.12.5")
    link(home / "project/.venv/bin/python", home / ".share/uv/python/cpython-3.12/bin/python3.12")
    (home / "project/.venv/pyvenv.cfg").write_text("")
    assert shown(home, home / "project/.venv/bin") == {
        "project/.venv",
        ".share/uv/python/cpython-3.12",
        ".share/uv/python/cpython-3.12.5",
    }


def test_a_folder_behind_a_link_is_shown_under_both_names(home):
    program(home / ".sdkman/candidates/java/21/bin/java")
    link(home / ".sdkman/candidates/java/current", "21")
    assert shown(home, home / ".sdkman/candidates/java/current/bin") == {
        ".sdkman/candidates/java/current",
        ".sdkman/candidates/java/21",
    }


def test_a_link_to_a_single_program_shows_only_that(home):
    program(home / "dotfiles/tool.sh")
    link(home / "bin/tool", "../dotfiles/tool.sh")
    assert shown(home, home / "bin") == {"bin", "dotfiles/tool.sh"}


def test_programs_of_node_packages_bring_the_packages(home):
    program(home / "project/node_modules/tool/cli.js")
    link(home / "project/node_modules/.bin/tool", "../tool/cli.js")
    assert shown(home, home / "project/node_modules/.bin") == {"project/node_modules"}


@pytest.mark.parametrize("entry", ["", ".", "relative/bin", "missing"])
def test_a_path_entry_that_means_nothing_shows_nothing(home, entry):
    assert shown(home, entry, home / "missing") == set()


def test_the_home_itself_is_never_shown(home):
    program(home / "tool")
    link(home / "loop", "loop")
    assert shown(home, home, home.parent, "/") == set()


def test_system_folders_need_no_naming_and_our_own_interpreter_is_shown(home):
    found = toolchain_folders({"PATH": "/usr/local/bin:/usr/bin:/bin"})
    assert not [folder for folder in found if folder.is_relative_to("/usr")]
    assert any(Path(sys.prefix).is_relative_to(folder) for folder in found) or Path(sys.prefix).is_relative_to("/usr")
