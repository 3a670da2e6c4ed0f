"""A stack whose flows cannot all be imported runs, says which and why, and `up` does not end with 0."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delegation.stack_state import FLOWS_MISSING
from deployments import __main__ as program
from deployments import starting
from deployments.registration.registering import missing_flows

LOG = """registered delegation/delegation
cannot import flows/delegation.py:delegation: ModuleNotFoundError: No module named 'yaml'
cannot import flows/comparison.py:comparison: ModuleNotFoundError: No module named 'yaml'
cannot import flows/night_shift.py:night: NameError: name 'x' is not defined
registered reading/question
"""


def test_every_flow_is_named_with_its_reason_once():
    assert missing_flows(LOG) == (
        f"{FLOWS_MISSING}: delegation, comparison: ModuleNotFoundError: No module named 'yaml'; "
        "night: NameError: name 'x' is not defined. Mend that, then `delegate down` and `delegate up`"
    )


@pytest.mark.parametrize(("warnings", "code"), [((), 0), (("a hint",), 0), ((f"{FLOWS_MISSING}: x",), 1)])
def test_up_ends_with_0_only_where_all_flows_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], warnings: Any, code: int
):
    state = SimpleNamespace(warnings=warnings, ui_url="u", api_url="a", version="1", config_hash="h")
    monkeypatch.setattr(starting, "start", lambda here, say: state)
    monkeypatch.setenv("DELEGATE_HOME", str(tmp_path))
    assert program.main(["up", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["running"] is True


def test_a_stack_that_runs_without_some_flows_is_one_that_was_started(front: Any, monkeypatch: pytest.MonkeyPatch):
    from mcp_entry.stack import access

    says = ["-c", "import sys; print('{\"running\": true}'); sys.exit(1)"]
    monkeypatch.setattr(access, "_argv", lambda *words: [sys.executable, *says])
    assert access.control(front.settings, "up") == {"running": True}
