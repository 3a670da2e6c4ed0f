"""Fresh checkouts for the verdict, and the one door to git."""

import subprocess
from pathlib import Path

import pytest

from delegation.checkout.git import ask_git, git, locate, top_level
from delegation.checkout.worktree import fresh_checkout
from delegation.errors import WorkFailed


def test_a_fresh_checkout_is_removed_also_when_the_work_in_it_fails(repo, tmp_path):
    place = tmp_path / "fresh"
    with pytest.raises(ZeroDivisionError), fresh_checkout(repo.path, repo.head, place) as checkout:
        _work_and_fail(checkout)
    assert not place.exists()


def _work_and_fail(checkout: Path) -> None:
    assert git("status", "--porcelain", cwd=checkout) == ""
    (checkout / "locked").mkdir()
    (checkout / "locked/file").write_text("x\n")
    (checkout / "locked").chmod(0o500)
    raise ZeroDivisionError


def test_a_fresh_checkout_never_takes_a_folder_that_is_there(repo, tmp_path):
    place = tmp_path / "fresh"
    place.mkdir()
    (place / "keep").write_text("k\n")
    with pytest.raises(WorkFailed), fresh_checkout(repo.path, repo.head, place):
        pass
    assert (place / "keep").exists()


def test_top_level_is_none_outside_of_a_repository(tmp_path, repo):
    assert top_level(tmp_path) is None
    assert top_level(tmp_path / "nowhere") is None
    assert top_level(repo.path / "pkg") == repo.path
    assert locate(repo.path / ".git/objects")


def test_a_git_that_hangs_is_ended_with_its_children(repo, tmp_path):
    repo.git("config", "alias.hang", "!sleep 61 & sleep 62")
    with pytest.raises(WorkFailed, match="did not end within"):
        ask_git("hang", cwd=repo.path, timeout_seconds=0.5)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout.decode().splitlines()
    assert "sleep 61" not in listed


def test_keys_in_the_environment_do_not_reach_git(repo, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    repo.git("config", "alias.show-env", "!env")
    assert "secret" not in git("show-env", cwd=repo.path)
