"""On the real stack: after `refuted` the same worker goes on, and its changes come home together."""

import json
from pathlib import Path

import pytest

from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, local_model

pytestmark = pytest.mark.stack


def edit(old: str, new: str) -> Turn:
    return Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": old, "new_text": new}),))


def test_a_refuted_delegation_is_gone_on_with_until_it_is_verified(stack: Terminal, small_repository: Path):
    turns = (edit("a - b", "a * b"), Turn(text="Fixed."), edit("a * b", "a + b"), Turn(text="Fixed now."))
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 3)]) as endpoint:
        env = local_model(endpoint.base_url)
        words = ("run", "Fix it", "--repo", str(small_repository), "--verify", "python -m pytest -q", "--json")
        first = stack(*words, env=env)
        second = stack("rerun", first.json["id"], "--continue", "--json", env=env)
        told = json.dumps(endpoint.calls[2].body)
    assert (first.code, first.json["outcome"]) == (1, "refuted"), first.stderr
    assert (second.code, second.json["outcome"]) == (0, "verified"), second.stderr
    assert second.json["parent_id"] == first.json["id"] != second.json["id"]
    assert "test_adding.py::test_add" in told, "the failing test is named to the model"
    assert second.json["turns"] == 2
    report = stack("apply", second.json["id"], "--all", "--json")
    assert (report.code, report.json["report"]["accepted"]) == (0, True), report.stderr
    assert "a + b" in (small_repository / "adding.py").read_text()
    trees = {line["delegation_id"] for line in stack("worktrees", "--json").json["worktrees"]}
    assert second.json["id"] not in trees, "the tree of what is verified is gone"
