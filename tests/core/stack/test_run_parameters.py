"""A run that is made in the UI with parameters that do not fit: the server lets it begin, and its failure says why."""

import importlib
from typing import Any

import pytest

from delegation.errors import UsageError


@pytest.mark.parametrize(
    ("flow", "given", "said"),
    [
        ("delegation.delegation", {"card": {"task": 3}}, "card.task must be a text, not 3; card.repo is missing."),
        ("delegation.delegation", {"nonsense": 1}, "nonsense is an unknown key."),
        ("night_shift.night_shift", {}, "cards is missing."),
        (
            "night_shift.night_shift",
            {"cards": "/x", "in_flight": "many"},
            "in_flight must be a whole number, not 'many'.",
        ),
        ("comparison.comparison", {"card": {}, "models": "a"}, "models must be a list of texts, not 'a'."),
        ("reading.reading", {"prompt": [1]}, "prompt must be a text, not a list."),
    ],
)
def test_every_parameter_that_does_not_fit_is_named_with_what_to_do(flow: str, given: dict[str, Any], said: str):
    module, _, name = flow.partition(".")
    found = getattr(importlib.import_module(f"flows.{module}"), name)
    with pytest.raises(UsageError) as refused:
        found.validate_parameters(given)
    assert said in str(refused.value)
    assert "Choose 'Copy to new run'" in str(refused.value)
