"""What the process of a question is told, beside what its asker's environment says."""

from typing import Any

import pytest
from front import Front

from delegation.stack_state import MARK, live_state
from mcp_entry.verbs.reading.question_run import NotBegun, Runs

SETTINGS = {"PREFECT_API_URL": "http://127.0.0.1:1/api", "PREFECT_CLI_COLORS": "False"}


def runs(front: Front, **changed: Any) -> Runs:
    state = live_state(front.settings.home)
    assert state is not None
    return Runs(front.settings, state.model_copy(update=changed))


def test_it_has_the_settings_that_every_flow_process_of_the_stack_has(stacked: Front):
    environment = runs(stacked, flow_settings=SETTINGS, mark="m")._environment("rd-1")
    assert {name: value for name, value in environment.items() if name.startswith("PREFECT_")} == SETTINGS
    assert (environment[MARK], environment["DELEGATE_QUESTION"]) == ("m", "rd-1")


def test_a_stack_that_names_none_begins_no_question(stacked: Front):
    with pytest.raises(NotBegun, match="older version"):
        runs(stacked, flow_settings={})._environment("rd-1")
