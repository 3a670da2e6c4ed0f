"""What a caller hears when a card is submitted: uncommitted changes that stay behind, and a tool that is not there."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delegation.admission import admit
from delegation.request import DelegationRequest
from delegation.said_at_once import first_word, said_at_once

Admitted = Callable[..., DelegationRequest]


@pytest.fixture
def admitted(settings_for: Any, card_for: Any) -> Admitted:
    def admitted(**fields: Any) -> DelegationRequest:
        return admit(card_for(**fields), settings_for(), tool="run")

    return admitted


def test_uncommitted_changes_are_named_and_nothing_of_it_is_in_the_request(admitted: Admitted, repo: Path):
    assert said_at_once(admitted()) == ()
    (repo / "new.txt").write_text("n")
    (repo / "sub" / "deep" / "a.txt").write_text("changed")
    request = admitted()

    assert request.warnings == ()
    assert said_at_once(request) == (
        "uncommitted changes are not part of the base (--include-dirty carries them): new.txt, sub/deep/a.txt",
    )


@pytest.mark.parametrize("fields", [{"include_dirty": True}, {"isolation": "in_place"}, {"isolation": "copy"}])
def test_changes_that_come_along_are_not_told_of(admitted: Admitted, repo: Path, fields: dict[str, Any]):
    (repo / "new.txt").write_text("n")
    assert said_at_once(admitted(**fields)) == ()


def test_the_look_at_the_checkout_runs_no_filter_of_the_repository(admitted: Admitted, repo: Path, tmp_path: Path):
    ran = tmp_path / "ran"
    subprocess.run(["git", "config", "filter.evil.clean", f"sh -c 'echo x >> {ran}; cat'"], cwd=repo, check=True)
    (repo / ".git" / "info" / "attributes").write_text("*.txt filter=evil\n")
    os.utime(repo / "sub" / "deep" / "a.txt", (1, 1))  # git has to read it to know that it is the same
    said_at_once(admitted())
    assert not ran.exists()


def test_a_verify_command_whose_program_is_not_on_the_path_is_a_warning(admitted: Admitted):
    said = said_at_once(admitted(verify="FORCE=1 no-such-runner --all"))
    assert said == (
        "the verify command begins with 'no-such-runner', which is not on your PATH: without a --setup that brings it, "
        "nothing can be judged",
    )
    assert said_at_once(admitted(verify="no-such-runner", setup="make tools")) == ()
    assert said_at_once(admitted(verify="sh -c true")) == ()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("pytest -q", "pytest"),
        ("A=1 B='x y' pytest", "pytest"),
        ("./run.sh", None),
        ("cd sub && make", None),
        ("(make)", None),
        ("$RUNNER x", None),
        ("! grep x", None),
        ("unclosed 'quote", None),
        ("A=1", None),
    ],
)
def test_only_a_plain_first_word_is_judged(command: str, word: str | None):
    assert first_word(command) == word
