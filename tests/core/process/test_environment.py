"""What a child command sees of the environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from delegation.process import child_environment, make_private_folders

OURS = {
    "PATH": "/opt/tool/bin:relative:.::/usr/bin",
    "HOME": "/home/someone",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TZ": "Europe/Berlin",
    "USER": "someone",
    "TERM": "xterm-256color",
    "MODEL_A_KEY": "fake-key-a",
    "AWS_SECRET_ACCESS_KEY": "fake",
    "ANTHROPIC_API_KEY": "fake",
    "OPENAI_API_KEY": "fake",
    "CLAUDECODE": "1",
    "DELEGATE_HOME": "/x",
    "DELEGATE_LOCAL_KEY": "fake",
    "PREFECT_API_URL": "http://127.0.0.1:4200/api",
    "PREFECT_HOME": "/x",
    "GIT_DIR": "/victim/.git",
    "GIT_INDEX_FILE": "/victim/index",
    "VIRTUAL_ENV": "/x",
    "PYTHONPATH": "/x",
    "CI": "1",
    "NO_COLOR": "1",
    "SSH_AUTH_SOCK": "/run/agent",
    "HTTPS_PROXY": "http://proxy:3128",
    "HTTP_PROXY": "http://user:secret@proxy:3128",
}


def environment(**options):
    return child_environment(home=Path("/p/home"), temp=Path("/p/temp"), source=OURS, **options)


def test_only_what_is_allowed_comes_along():
    inherited = {name: value for name, value in environment().items() if OURS.get(name) == value}
    assert inherited == {
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
        "USER": "someone",
        "HTTPS_PROXY": "http://proxy:3128",
    }


def test_no_key_and_no_routing_variable_is_in_it():
    env = environment()
    assert not [value for value in env.values() if "fake" in value or "secret" in value or "victim" in value]
    assert not [name for name in env if name.startswith(("DELEGATE", "PREFECT", "CLAUDE", "ANTHROPIC"))]


def test_path_keeps_its_absolute_folders_only():
    assert environment()["PATH"] == "/opt/tool/bin:/usr/bin"


def test_home_and_temp_are_private():
    env = environment()
    assert env["HOME"] == "/p/home"
    assert env["TMPDIR"] == "/p/temp"
    assert all(env[name].startswith("/p/home/") for name in env if name.startswith("XDG_"))


def test_nothing_waits_for_a_key():
    wanted = {"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}
    wanted |= {"GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "TERM": "dumb"}
    assert wanted.items() <= environment().items()


def test_a_variable_passes_when_it_is_named():
    env = environment(passthrough=["CI", "MODEL_*"], extra={"CI": "extra wins"})
    assert (env["CI"], env["MODEL_A_KEY"]) == ("extra wins", "fake-key-a")


def test_a_toolchain_below_the_users_home_is_pointed_to(tmp_path: Path):
    (tmp_path / ".rustup").mkdir()
    env = child_environment(home=Path("/p/h"), temp=Path("/p/t"), source={"HOME": str(tmp_path), "PATH": "/usr/bin"})
    assert env["RUSTUP_HOME"] == str(tmp_path / ".rustup")
    assert "PYENV_ROOT" not in env


def test_private_folders_are_closed_to_others_and_carry_a_git_identity(tmp_path: Path):
    home, temp = tmp_path / "home", tmp_path / "temp"
    make_private_folders(home, temp, user_home=tmp_path)
    make_private_folders(home, temp, user_home=tmp_path)
    assert [folder.stat().st_mode & 0o777 for folder in (home, temp)] == [0o700, 0o700]
    env = child_environment(home=home, temp=temp)
    name = subprocess.run(["git", "config", "user.name"], env=env, cwd=temp, capture_output=True, check=True)
    assert name.stdout.strip() == b"agent"


@pytest.mark.skipif(sys.platform == "win32", reason="user packages lie elsewhere")
def test_packages_a_user_installed_for_himself_are_still_found(tmp_path: Path):
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    theirs = tmp_path / "user" / ".local" / "lib" / python / "site-packages"
    theirs.mkdir(parents=True)
    (theirs / "their_package.py").write_text("")
    home, temp = tmp_path / "home", tmp_path / "temp"
    make_private_folders(home, temp, user_home=tmp_path / "user")
    base = sys._base_executable  # pyright: ignore[reportAttributeAccessIssue]
    env = child_environment(home=home, temp=temp)
    subprocess.run([base, "-c", "import their_package"], env=env, check=True)
