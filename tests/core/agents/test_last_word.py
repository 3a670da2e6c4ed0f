"""An announcement is told from a report by how it ends."""

import pytest

from delegation.agents.final_reply import announces_work


@pytest.mark.parametrize(
    "text",
    [
        "I'll fix the test now.",
        "The bug is in parse(). Let me change it:",
        "Found it.\n\nNext, I will update the docs.",
        "I’m going to run the tests",
        "Now I need to update the caller.",
        "Here is the plan:",
    ],
)
def test_an_announcement_is_seen(text: str):
    assert announces_work(text)


@pytest.mark.parametrize(
    "text",
    [
        "I changed parse() and ran the tests: all pass.",
        "I will not touch the database. Done.",
        "First I said: let me look. Then I fixed it. 12 tests pass.",
        "Fixed. Let me know if you want more.",
        "The function let_me_in is renamed.",
        "",
    ],
)
def test_a_report_is_not_taken_for_one(text: str):
    assert not announces_work(text)
