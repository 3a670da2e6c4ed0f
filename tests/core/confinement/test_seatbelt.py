"""The profile for macOS, as text."""

from pathlib import Path

import pytest

from delegation.confinement import Walls
from delegation.confinement.seatbelt import Seatbelt, profile
from delegation.errors import WorkFailed

WALLS = Walls(
    writable=(Path("/Users/u/.delegate/worktrees/dg-1/tree"), Path("/private/tmp/t")),
    readable=(Path("/Users/u/.pyenv"),),
    hidden=(Path("/Users/u"), Path("/Users/u/.delegate")),
)


def lines(walls: Walls = WALLS) -> list[str]:
    return profile(walls).splitlines()


def test_everything_is_denied_first():
    assert lines()[:2] == ["(version 1)", "(deny default)"]


def test_longer_paths_come_later_because_the_last_rule_decides():
    order = [
        '(deny file-read-data file-write* (subpath "/Users/u"))',
        '(allow file-read* (subpath "/Users/u/.pyenv"))',
        '(deny file-write* (subpath "/Users/u/.pyenv"))',
        '(allow file-write* (subpath "/Users/u/.delegate/worktrees/dg-1/tree"))',
    ]
    positions = [lines().index(rule) for rule in order]
    assert positions == sorted(positions)
    assert (
        positions[0] < lines().index('(deny file-read-data file-write* (subpath "/Users/u/.delegate"))') < positions[-1]
    )


def test_only_the_writable_may_be_written():
    allowed = {line for line in lines() if line.startswith("(allow file-write*")}
    assert allowed == {
        '(allow file-write* (subpath "/Users/u/.delegate/worktrees/dg-1/tree"))',
        '(allow file-write* (subpath "/private/tmp/t"))',
    }


def test_the_network_is_off_unless_it_is_on():
    off = lines(Walls(writable=WALLS.writable, network=False))
    assert "(deny network*)" in off
    assert not [line for line in off if line.startswith("(allow network")]
    assert "(allow network-outbound)" in lines()


def test_sockets_in_hidden_folders_cannot_be_reached_with_the_network_on():
    rules = lines()
    denied = '(deny network-outbound (remote unix-socket (subpath "/Users/u/.delegate")))'
    assert rules.index(denied) > rules.index("(allow network-outbound)")


def test_a_name_cannot_break_out_of_its_quotes():
    text = profile(Walls(writable=(Path('/a/") (allow default) ("\\'),)))
    assert '(subpath "/a/\\") (allow default) (\\"\\\\")' in text


def test_the_command_follows_the_profile():
    tree = WALLS.writable[0]
    argv = Seatbelt().wrap(["pytest", "-q"], walls=WALLS, cwd=tree)
    assert argv == ["/usr/bin/sandbox-exec", "-p", profile(WALLS), "pytest", "-q"]


def test_a_folder_behind_the_walls_is_refused():
    with pytest.raises(WorkFailed, match="behind the walls"):
        Seatbelt().wrap(["true"], walls=WALLS, cwd=Path("/Users/u/other"))


def test_every_parenthesis_is_closed():
    text = profile(WALLS)
    assert text.count("(") == text.count(")")
