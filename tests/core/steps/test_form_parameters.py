"""A run that somebody starts with parameters that cannot be says which one, what may stand there, and what to do."""

import logging
from typing import Any

import pytest
from prefect import Flow

from delegation.errors import UsageError
from flows.comparison import comparison
from flows.delegation import delegation
from flows.night_shift import night_shift
from flows.reading import reading

CARD = {"task": "Fix it", "repo": "/r"}


@pytest.mark.parametrize(
    ("flow", "parameters", "said"),
    [
        (delegation, {"card": {**CARD, "verfy": "x"}}, "card.verfy is an unknown key: did you mean 'verify'?"),
        (delegation, {"card": {"repo": "/r"}}, "card.task is missing."),
        (delegation, {"card": {**CARD, "max_turns": "many"}}, "card.max_turns must be a whole number from 1 to 150, "
         "not 'many'."),
        (delegation, {"card": {**CARD, "lane": "fast"}}, "card.lane must be 'local', 'flat_plan', 'metered' or "
         "'subscription_cli', not 'fast'."),
        (delegation, {"card": "Fix it"}, "card must be an object of keys and values, not 'Fix it'."),
        (delegation, {"cart": CARD}, "cart is an unknown key: did you mean 'card'?"),
        (delegation, {"request": {"id": 5}}, "request.id must be a text, not 5"),
        (delegation, {"card": {"task": 3}}, "card.task must be a text, not 3; card.repo is missing."),
        (delegation, {"nonsense": 1}, "nonsense is an unknown key."),
        (night_shift, {}, "cards is missing."),
        (night_shift, {"cards": "/c", "in_flight": "many"}, "in_flight must be a whole number, not 'many'."),
        (comparison, {"models": "a"}, "models must be a list of texts, not 'a'."),
        (comparison, {"card": {**CARD, "colour": 1}, "models": ["a"], "repeats": []}, "card.colour is an unknown key; "
         "repeats must be a whole number, not a list."),
        (comparison, {"card": {}, "models": "a"}, "models must be a list of texts, not 'a'."),
        (reading, {"prompt": 5}, "prompt must be a text, not 5."),
        (reading, {"prompt": [1]}, "prompt must be a text, not a list."),
    ],
)  # fmt: skip
def test_it_says_which_value_is_wrong_what_is_allowed_and_what_to_do(
    flow: Flow[Any, Any], parameters: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.CRITICAL)
    with pytest.raises(UsageError) as refused:
        flow.validate_parameters(parameters)
    assert said in str(refused.value)
    assert str(refused.value).endswith(" Nothing was done. Choose 'Copy to new run' on this page, mend it in the form, "
                                       "and start it there")  # fmt: skip


def test_what_is_right_becomes_the_values_that_the_flow_works_with():
    made = delegation.validate_parameters({"card": {**CARD, "max_turns": "7"}, "request": None})
    assert (made["card"].max_turns, made["card"].task, made["request"]) == (7, "Fix it", None)
    assert night_shift.validate_parameters({"cards": "/c"})["in_flight"] == 8
