"""A pin to this machine that was committed holds although the file is gone from the folder that the work is in."""

import subprocess
from pathlib import Path

import pytest

from delegation.errors import UsageError
from delegation.models import lanes
from delegation.reading.lane import lane_of_folder

PIN = 'lane = "local"\n'


def git(cwd: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def commit(repo: Path, text: str | None, folder: str = ".") -> str:
    path = repo / folder / ".delegate.toml"
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True) if text is None else path.write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", "c")
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    commit(top, None)
    return top


@pytest.mark.parametrize("text", [PIN, "\ufeff" + PIN, "[broken\n lane='local'\n"])
def test_the_pin_of_head_holds_without_the_file(text: str, repo: Path, settings_for):
    commit(repo, text)
    (repo / ".delegate.toml").unlink()
    assert lanes.lane_of_repository(repo, settings_for()) == "local"
    (repo / ".delegate.toml").write_text("")
    assert lanes.lane_of_repository(repo, settings_for()) == "local"


def test_the_pin_of_the_base_holds_after_a_later_commit_took_it_away(repo: Path, settings_for):
    before = git(repo, "rev-parse", "HEAD")
    pinned = commit(repo, PIN)
    commit(repo, None)
    assert lanes.lane_of_repository(repo, settings_for()) is None
    assert lanes.lane_of_repository(repo, settings_for(), before) is None
    assert lanes.lane_of_repository(repo, settings_for(), pinned) == "local"


@pytest.mark.parametrize("committed", [True, False])
def test_the_pin_of_the_main_worktree_holds_in_a_linked_one(committed: bool, repo: Path, tmp_path: Path, settings_for):
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
    assert lanes.lane_of_repository(linked, settings_for()) is None
    if committed:
        commit(repo, PIN)
        (repo / ".delegate.toml").unlink()
    else:
        (repo / ".delegate.toml").write_text(PIN)
    assert lanes.lane_of_repository(linked, settings_for()) == "local"


def test_a_folder_that_is_read_is_pinned_by_the_history_above_it(repo: Path, settings_for):
    commit(repo, PIN, "a")
    (repo / "a/.delegate.toml").unlink()
    (repo / "a/b").mkdir()
    (repo / "c").mkdir()
    assert lane_of_folder(repo / "a/b", settings_for()) == "local"
    assert lane_of_folder(repo / "c", settings_for()) is None


def test_other_demands_of_the_history_pin_nothing(repo: Path, settings_for):
    commit(repo, '# lane = "local"\nlane = "metered"\n')
    (repo / ".delegate.toml").unlink()
    assert lanes.lane_of_repository(repo, settings_for()) is None


def test_a_repository_that_git_cannot_read_is_refused_and_no_demand_dropped(repo: Path, settings_for, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=r"cannot tell whether .* must stay on this machine"):
        lanes.lane_of_repository(repo, settings_for())


def test_a_folder_without_git_needs_no_git(tmp_path: Path, settings_for, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert lanes.lane_of_repository(tmp_path, settings_for()) is None
