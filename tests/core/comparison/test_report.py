"""What may be said: the order, who is told apart, and what is open, from the records alone."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delegation.comparison.notice import tell_report
from delegation.comparison.report import report_of
from delegation.notification.notice import Hook
from delegation.receipt import Cost

if TYPE_CHECKING:
    from tests.core.comparison.conftest import Bench


def played(bench: "Bench", results: dict[str, str], **given: Any) -> Any:
    """Each letter is a trial; x is one that failed for a reason that is not the model's."""
    trials = bench.begun(*results, repeats=max(map(len, results.values())), **given)
    for model, letters in results.items():
        for repeat, letter in enumerate(letters, start=1):
            outcome = {"v": "verified", "r": "refuted", "x": "failed", "a": "answered", "u": "unverified"}[letter]
            bench.end(trials, model, repeat, outcome)
    return trials


def test_models_are_told_apart_only_where_their_intervals_do_not_overlap(bench: "Bench"):
    report = report_of(played(bench, {"a": "rrrr", "b": "vvvv", "local-c": "vvrv"}))
    assert [(each.model, each.rank, each.not_told_apart) for each in report.models] == [
        ("b", "1-2", ("local-c",)), ("local-c", "1-3", ("a", "b")), ("a", "2-3", ("local-c",)),
    ]  # fmt: skip
    assert report.findings[:2] == (
        "'b' passes more often than 'a': their intervals do not overlap.",
        "Not told apart from the best: 'b' and 'local-c'.",
    )
    assert report.says_something_of_each


def test_with_few_trials_it_says_that_nothing_is_told_apart(bench: "Bench"):
    report = report_of(played(bench, {"a": "r", "b": "v"}))
    assert [each.rank for each in report.models] == ["1-2", "1-2"]
    assert [each.model for each in report.models] == ["b", "a"]
    assert report.findings[:2] == (
        "Not told apart: 'b' and 'a'. Their intervals overlap, so the difference may be chance.",
        "With fewer than 4 trials that count, even all against none is not told apart: give more repeats.",
    )


def test_a_model_of_which_nothing_counts_has_no_rank_and_comes_last(bench: "Bench"):
    report = report_of(played(bench, {"a": "xx", "b": "rv", "local-c": "rr"}))
    assert [(each.model, each.rank) for each in report.models] == [("b", "1-2"), ("local-c", "1-2"), ("a", None)]
    assert "Nothing can be said of 'a': none of its trials counts (2 failed: process)." in report.findings
    assert not report.says_something_of_each


@pytest.mark.parametrize("given", [{"verify": None}, {"verify": None, "expects": "answer"}])
def test_what_nothing_judges_is_not_ranked(bench: "Bench", given: dict[str, Any]):
    letter = "a" if "expects" in given else "u"
    report = report_of(played(bench, {"a": letter, "b": letter}, card=bench.card(**given)))
    assert [each.rank for each in report.models] == [None, None]
    assert report.findings == (
        "Nothing judges what this card asks for, so no model is ranked: read them side by side.",
    )
    assert report.says_something_of_each


def test_where_an_answer_is_wanted_a_verify_command_ranks_nobody(bench: "Bench"):
    """Else a model that reached its turn limit would stand before those that answered."""
    trials = bench.begun("a", "b", card=bench.card(expects="answer"))
    bench.end(trials, "a", 1, "answered")
    bench.end(trials, "b", 1, "failed", failure_kind="turn_limit")
    report = report_of(trials)
    assert [(each.model, each.rank) for each in report.models] == [("a", None), ("b", None)]
    assert not report.judges


def test_the_cheapest_is_named_where_all_costs_are_of_one_kind(bench: "Bench"):
    trials = bench.begun("a", "b")
    bench.end(trials, "a", 1, "verified", cost=Cost(amount_usd=0.02, kind="estimated"))
    bench.end(trials, "b", 1, "verified", cost=Cost(amount_usd=0.01, kind="estimated"))
    assert report_of(trials).findings[-1] == "Cheapest for one verified result: 'b' with ~$0.0100 estimated each."


def test_where_all_cost_the_same_none_is_the_cheapest(bench: "Bench"):
    trials = bench.begun("a", "b")
    for model in ("a", "b"):
        bench.end(trials, model, 1, "verified", cost=Cost(amount_usd=0.02, kind="reported"))
    assert report_of(trials).findings[-1] == "A verified result costs the same with 'a' and 'b': $0.020000 each."


def test_whoever_wants_to_hear_of_its_end_is_told_by_a_command(bench: "Bench", tmp_path: Path):
    heard = tmp_path / "heard.json"
    hook = Hook(command=f"cat > {heard}", seconds=20, search_path=os.environ["PATH"])
    trials = played(bench, {"a": "v", "b": "r"}, notify=hook)
    report = report_of(trials)
    home = trials.settings.home
    told = tell_report(trials.comparison, report, home, ui_url="http://127.0.0.1/x", at_most_seconds=20)

    assert told is not None
    assert told.problem is None
    notice = json.loads(heard.read_text())
    assert (notice["kind"], notice["id"], notice["report"]) == ("comparison", report.id, report.html_path)
    assert (notice["trials"], notice["ended"], notice["ui_url"]) == (2, 2, "http://127.0.0.1/x")
    assert notice["summary"].startswith("Not told apart")
    silent = trials.comparison.model_copy(update={"notify": None})
    assert tell_report(silent, report, home, ui_url=None, at_most_seconds=20) is None


def test_it_can_be_read_at_any_time_and_says_what_is_open(bench: "Bench"):
    trials = bench.open(bench.plan("a", "b", repeats=2, in_flight=3))
    for trial in trials.next():
        trials.enter(bench.state, trial)
    bench.end(trials, "a", 1, "verified")
    (trials.records.folder(trials.comparison.trials[1].delegation_id) / "receipt.json").write_text("{")
    report = report_of(trials)

    assert [line.state for line in report.trials] == ["verified", "unreadable", "running", "waiting"]
    assert (report.is_over, report.ended) == (False, 2)
    assert report.findings[0] == "2 of 4 trials have ended; the figures are of these."
    assert not report.says_something_of_each


def test_what_it_came_to_stays_known_when_its_records_are_cleared_away(bench: "Bench"):
    trials = played(bench, {"a": "v", "b": "r"})
    report, store = report_of(trials), bench.store
    assert not store.is_written(report.id)
    store.publish(report.id, "report.json", report.model_dump_json())
    shutil.rmtree(trials.records.folder(trials.comparison.trials[0].delegation_id))
    again = bench.open(trials.comparison)
    assert report_of(again).ended == 1
    assert store.report(again) == report
    store.publish(report.id, "report.json", report_of(again).model_dump_json())
    assert (store.is_written(report.id), store.report(again).ended) == (False, 1)
    store.publish(report.id, "report.json", '{"id": "of another version"}')
    assert store.report(again).ended == 1


def test_no_more_are_at_work_than_may_be_and_none_is_begun_twice(bench: "Bench"):
    plan = bench.plan("a", "b", repeats=2, in_flight=3)
    trials = bench.open(plan)
    first = list(trials.next())
    assert [(each.model, each.repeat) for each in first] == [("a", 1), ("b", 1), ("a", 2)]
    for trial in first:
        trials.enter(bench.state, trial)
    assert list(trials.next()) == []

    again = bench.open(plan)  # as whoever takes it up after a kill
    assert sorted(again.open_children()) == sorted(each.delegation_id for each in first)
    assert not again.enter(bench.state, first[0]).is_new
    assert list(again.next()) == []
    bench.end(again, "b", 1, "refuted")
    (last,) = again.next()
    assert (last.model, last.repeat) == ("b", 2)
    again.enter(bench.state, last)
    for model, repeat in (("a", 1), ("a", 2), ("b", 2)):
        assert not again.is_over
        bench.end(again, model, repeat, "verified")
    assert again.is_over
    assert sorted(trials.records.ids()) == sorted(each.delegation_id for each in plan.trials)


def test_a_trial_whose_row_was_written_and_not_its_record_is_completed(bench: "Bench"):
    """A kill between the two: whoever comes next finds the row by its key."""
    trials = bench.open(bench.plan("a", "b"))
    entered = trials.enter(bench.state, trials.comparison.trials[0])
    shutil.rmtree(trials.records.folder(entered.request.id))
    again = bench.open(trials.comparison)
    assert again.next()[0].delegation_id == entered.request.id
    completed = again.enter(bench.state, again.next()[0])
    assert (completed.request.id, completed.number) == (entered.request.id, entered.number)
    assert again.records.request(entered.request.id).chain == ()
