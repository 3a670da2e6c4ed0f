"""Several git calls under one limit of time."""

import os
import time
from pathlib import Path

import pytest

from delegation.checkout.git import ask_git, time_limit
from delegation.errors import WorkFailed


@pytest.fixture
def hanging(repo) -> Path:
    """A repository with a named pipe in it, which git waits on when it is to hash it."""
    os.mkfifo(repo.path / "pipe")
    return repo.path


def test_a_call_that_hangs_ends_with_the_limit_and_the_next_does_not_begin(hanging: Path):
    started = time.monotonic()
    with time_limit(0.3):
        with pytest.raises(WorkFailed, match=r"git hash-object pipe did not end within 0\.\d+ s") as caught:
            ask_git("hash-object", "pipe", cwd=hanging)
        with pytest.raises(WorkFailed, match="no time was left for git status"):
            ask_git("status", cwd=hanging)
    assert caught.value.kind == "checkout"
    assert time.monotonic() - started < 5
    assert ask_git("status", cwd=hanging).exit_code == 0


def test_a_limit_can_be_lifted_for_what_must_not_be_cut_short(hanging: Path):
    with time_limit(0.000_001), time_limit(None):
        assert ask_git("status", cwd=hanging).exit_code == 0


def test_a_calls_own_shorter_time_still_holds(hanging: Path):
    with time_limit(60), pytest.raises(WorkFailed, match=r"within 0\.2 s"):
        ask_git("hash-object", "pipe", cwd=hanging, timeout_seconds=0.2)
