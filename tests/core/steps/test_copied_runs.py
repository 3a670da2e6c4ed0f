"""What the first step makes of a run that somebody started in the UI: its own delegation, the same at every retry."""

import json
import subprocess
from typing import Any

import pytest
from front import Front

from delegation import steps
from delegation.card import Card
from delegation.errors import UsageError
from delegation.request import DelegationRequest
from deployments.upkeep.own_request import own_parameters

RUN, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def submitted(stacked: Front) -> DelegationRequest:
    """A delegation that has ended, and whose flow run is known."""
    started = stacked.service().submit(stacked.card("Double it", verify="true", key="mine"))
    stacked.end(started.id, "refuted", patch=b"+x\n")
    return stacked.records.request(started.id)


def prepared(stacked: Front, monkeypatch: pytest.MonkeyPatch, *given: Any) -> DelegationRequest:
    for name, value in stacked.environ.items():
        monkeypatch.setenv(name, value)
    return steps.prepare(*given)


def test_its_own_flow_run_goes_on_with_it_and_another_one_gets_a_new_delegation(
    stacked: Front, submitted: DelegationRequest, monkeypatch: pytest.MonkeyPatch
):
    own = stacked.records.entry(submitted.id).flow_run_id
    assert prepared(stacked, monkeypatch, None, submitted, own).id == submitted.id
    edited = submitted.model_copy(update={"card": submitted.card.model_copy(update={"task": "Treble it"})})
    copy = prepared(stacked, monkeypatch, None, edited, OTHER)
    assert copy.id != submitted.id
    assert (copy.parent_id, copy.card.task, copy.card.key, copy.tool) == (submitted.id, "Treble it", None, "ui")
    assert (copy.endpoint, copy.base_commit) == (submitted.endpoint, submitted.base_commit)
    entry = stacked.records.entry(copy.id)
    assert (entry.flow_run_id, entry.parent_id, entry.number) == (OTHER, submitted.id, 2)
    assert stacked.records.request(submitted.id) == submitted
    assert prepared(stacked, monkeypatch, None, edited, OTHER).id == copy.id, "a retry is of the same one"
    assert len(stacked.records.ids()) == 2


def test_a_bare_card_is_one_delegation_however_often_its_run_is_retried(
    stacked: Front, monkeypatch: pytest.MonkeyPatch
):
    card = stacked.card("Double it")
    first = prepared(stacked, monkeypatch, card, None, RUN)
    again = prepared(stacked, monkeypatch, card, None, RUN)
    other = prepared(stacked, monkeypatch, card, None, OTHER)
    assert first.id == again.id != other.id
    assert stacked.records.entry(first.id).flow_run_id == RUN
    assert len(stacked.records.ids()) == 2


def test_a_changed_model_is_resolved_anew_on_the_same_commit_or_refused(
    stacked: Front, submitted: DelegationRequest, monkeypatch: pytest.MonkeyPatch
):
    (stacked.repo / "more.py").write_text("", encoding="utf-8")
    for words in (["add", "."], ["commit", "-qm", "later"]):
        subprocess.run(["git", *words], cwd=stacked.repo, check=True)

    def with_model(model: str) -> DelegationRequest:
        return submitted.model_copy(update={"card": submitted.card.model_copy(update={"model": model})})

    copy = prepared(stacked, monkeypatch, None, with_model("local-other"), OTHER)
    assert (copy.endpoint.alias, copy.parent_id) == ("local-other", submitted.id)
    assert copy.base_commit == submitted.base_commit
    assert f"started in the UI from the parameters of {submitted.id}" in copy.warnings
    before = stacked.records.ids()
    with pytest.raises(UsageError, match="unknown model 'nosuch'"):
        prepared(stacked, monkeypatch, None, with_model("nosuch"), RUN)
    assert stacked.records.ids() == before


def test_a_task_too_long_for_a_parameter_is_whole_in_the_copy(
    stacked: Front, submitted: DelegationRequest, monkeypatch: pytest.MonkeyPatch
):
    whole = "Double it. " * 1_000
    stacked.records.change_request(
        submitted.model_copy(update={"card": submitted.card.model_copy(update={"task": whole})})
    )
    short = submitted.card.model_copy(update={"task": whole[:200]})
    given = submitted.model_copy(update={"card": short, "task_in_record": True})
    copy = prepared(stacked, monkeypatch, None, given, OTHER)
    assert (copy.card.task, copy.task_in_record) == (whole, False)


def test_a_retry_keeps_what_the_first_run_left_once_for_each_receipt(
    stacked: Front, submitted: DelegationRequest, monkeypatch: pytest.MonkeyPatch
):
    folder = stacked.records.folder(submitted.id)
    (folder / "candidate.log").write_text("1 failed", encoding="utf-8")
    (folder / "out").mkdir()
    (folder / "out" / "change.patch").write_text("for review", encoding="utf-8")
    own = stacked.records.entry(submitted.id).flow_run_id
    prepared(stacked, monkeypatch, None, submitted, own)
    (folder / "candidate.log").write_text("half of ano", encoding="utf-8")  # and then its process died
    prepared(stacked, monkeypatch, None, submitted, own)
    assert (folder / "earlier" / "1" / "candidate.log").read_text(encoding="utf-8") == "1 failed"
    assert (folder / "earlier" / "1" / "patch.diff").read_bytes() == b"+x\n"
    assert (folder / "earlier" / "1" / "out" / "change.patch").read_text(encoding="utf-8") == "for review"
    stacked.end(submitted.id, "verified", patch=b"+y\n")
    prepared(stacked, monkeypatch, None, submitted, own)
    assert sorted(path.name for path in (folder / "earlier").iterdir()) == ["1", "2"]
    assert (folder / "earlier" / "2" / "patch.diff").read_bytes() == b"+y\n"


def test_a_rerun_of_a_nights_delegation_is_no_part_of_that_night(stacked: Front, submitted: DelegationRequest):
    stacked.records.change_request(submitted.model_copy(update={"night_id": "night-20261130-x", "labels": ("card:a",)}))
    again = stacked.records.request(stacked.service().rerun(submitted.id).id)
    assert (again.parent_id, again.night_id, again.card.task) == (submitted.id, None, "Double it")
    rows = stacked.service().past.rows(stacked.service().past.filter(night="20261130-x"))
    assert [row.id for row in rows] == [submitted.id]


def test_the_keeper_writes_the_end_of_a_copied_run_into_no_other_record(
    stacked: Front, submitted: DelegationRequest, monkeypatch: pytest.MonkeyPatch
):
    own = stacked.records.entry(submitted.id).flow_run_id
    parameters = {"request": json.loads(submitted.model_dump_json())}
    assert own_parameters(stacked.records, {"id": own, "parameters": parameters}) == parameters
    fresh = {"id": OTHER, "parameters": parameters, "tags": [submitted.id, "bucket:b"]}
    assert own_parameters(stacked.records, fresh)["request"] is None, "it has made none of its own yet"
    copy = prepared(stacked, monkeypatch, None, submitted, OTHER)
    named = {"id": OTHER, "parameters": parameters, "tags": ["bucket:b", copy.id]}
    assert own_parameters(stacked.records, named)["request"]["id"] == copy.id
    bare = prepared(stacked, monkeypatch, Card(task="x", repo=str(stacked.repo)), None, RUN)
    by_card = {"id": RUN, "parameters": {"card": {"task": "x"}}, "tags": [bare.id]}
    assert own_parameters(stacked.records, by_card)["request"]["id"] == bare.id
    gone = {"id": RUN, "parameters": {"request": {"id": "dg-20200101t000000000-zzzz"}}}
    assert own_parameters(stacked.records, gone) == gone["parameters"]
