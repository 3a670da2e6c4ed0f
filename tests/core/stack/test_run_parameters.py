"""A run that is made in the UI with parameters that do not fit: the server lets it begin, and its failure says why."""

import importlib
from typing import Any

import pytest
from prefect.exceptions import ParameterTypeError, SignatureMismatchError


@pytest.mark.parametrize(
    ("flow", "given", "said"),
    [
        (
            "delegation.delegation",
            {"card": {"task": 3}},
            r"card\.task: Input should be .* string\n - card\.repo: Field",
        ),
        ("delegation.delegation", {"nonsense": 1}, r"\['card', 'request'\] but was provided with .*\['nonsense'\]"),
        ("night_shift.night_shift", {}, "cards: Field required"),
        ("night_shift.night_shift", {"cards": "/x", "in_flight": "many"}, "in_flight: Input should be a valid integer"),
        ("comparison.comparison", {"card": {}, "models": "a"}, "models: Input should be a valid list"),
        ("reading.reading", {"prompt": [1]}, "prompt: Input should be a valid string"),
    ],
)
def test_every_parameter_that_does_not_fit_is_named(flow: str, given: dict[str, Any], said: str):
    module, _, name = flow.partition(".")
    found = getattr(importlib.import_module(f"flows.{module}"), name)
    with pytest.raises((ParameterTypeError, SignatureMismatchError), match=said):
        found.validate_parameters(given)
