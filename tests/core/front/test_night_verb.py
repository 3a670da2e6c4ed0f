"""`delegate night`: what cannot be a night is refused before the stack hears of it."""

import json

import pytest
from front import Front

CARD = "---\nrepo: ..\n---\nFix it.\n"


@pytest.fixture
def night(front: Front) -> Front:
    (front.repo / "cards").mkdir()
    (front.repo / "cards" / "a.md").write_text(CARD, encoding="utf-8")
    return front


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the cards of which folder or file? Name it"),
        (("nosuch",), "there is no folder or file"),
        (("calc.py",), "is no card file"),
        (("cards", "--until", "25:00"), "--until must be a time such as 01:30"),
        (("cards", "--at", "noon"), "--at must be a time such as 01:30"),
        (("cards", "--at", "01:00", "--once", "--time-zone", "Mars"), "there is no time zone 'Mars'"),
        (("cards", "--budget", "0"), "--budget must be a number above 0, not 0"),
        (("cards", "--in-flight", "0"), "--in-flight must be a whole number from 1 to 1000, not 0"),
        (("cards", "--error-rate", "2"), "--error-rate must be a number above 0 to 1, not 2"),
        (("cards", "--name", "A b"), "name 'A b' must be of a-z, 0-9 and '-'"),
        (("cards", "--at", "01:00", "--wait"), "--wait is for a night that begins now"),
        (("cards", "--once"), "--once needs --at"),
    ],
)
def test_what_cannot_be_a_night_is_refused_by_its_option_and_nothing_is_left(
    night: Front, words: tuple[str, ...], text: str
):
    ran = night.delegate("night", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert text in ran.stderr
    assert not (night.home / "nights").exists()
    assert not (night.home / "stack").exists()


def test_taking_away_needs_the_stack(night: Front):
    ran = night.delegate("night", "cards", "--off", "--json")
    assert ran.code == 4
    assert "no stack runs" in ran.stderr
    assert ran.stdout == "" or "error" in json.loads(ran.stdout)
