"""What somebody asks of a night in the form of a run: refused by the name of the field, before anything begins."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import DelegateError, UsageError
from delegation.night.shift import Shift, open_shift
from delegation.night.surroundings import settings_for
from delegation.night.terms import terms_of


def opened(**given: Any) -> Shift:
    """As the flow does."""
    terms = terms_of(given)
    return open_shift(terms, "part", datetime.now(UTC), settings_for(terms.surroundings))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"in_flight": 0}, "in_flight must be a whole number from 1 to 1000, not 0"),
        ({"budget_usd": -1.0}, "budget_usd must be a number above 0, not -1.0"),
        ({"cards": "cards"}, "cards must be an absolute path, such as /home/you/cards, not 'cards'"),
        ({"until": "25:00"}, "until must be a time such as 01:30, from 00:00 to 23:59, not '25:00'"),
        ({"time_zone": "Mars"}, "there is no time zone 'Mars': give a name such as Europe/Berlin or UTC"),
        ({"name": "A b"}, "name 'A b' must be of a-z, 0-9 and '-', with 61 characters at most"),
        ({"surroundings": "nosuch"}, "the settings 'nosuch' of this night are gone: call `delegate night` again"),
    ],
)
@pytest.mark.usefixtures("delegate_home")
def test_terms_that_make_no_night_say_so_in_the_words_of_the_form(tmp_path: Path, given: dict[str, Any], said: str):
    with pytest.raises(UsageError) as refused:
        opened(**{"cards": str(tmp_path), **given})
    assert str(refused.value) == said


@pytest.mark.usefixtures("delegate_home")
def test_a_folder_that_is_gone_or_holds_no_card_is_told_by_its_path(tmp_path: Path):
    with pytest.raises(UsageError, match="holds no card"):
        opened(cards=str(tmp_path))
    with pytest.raises(DelegateError, match=r"there is no folder or file .*nosuch"):
        opened(cards=str(tmp_path / "nosuch"))
