"""A night on disk: what is begun is never begun twice, whenever it is killed or called again."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delegation.cards import read_cards
from delegation.night.costs import Costs
from delegation.night.ledger import Child, Ledger
from delegation.night.pages import markdown
from delegation.night.report import report_of
from delegation.night.scheduler import decide
from delegation.night.shift import Shift
from delegation.night.values import Decision, Job
from delegation.records.labels import run_name_of, tags_of
from delegation.shared_state import cooldowns

if TYPE_CHECKING:
    from tests.core.night.conftest import Table

End = Callable[..., Any]


def look(table: "Table", shift: Shift, minutes: int = 1) -> Decision:
    return decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun + timedelta(minutes=minutes)))


def starting(decision: Decision) -> list[str]:
    return [start.job for start in decision.start]


def test_a_card_becomes_one_delegation_of_this_night_with_its_budget_and_its_end(table: "Table"):
    table.write(a="model: local-other\nbudget: 0.5")
    shift = table.open(budget_usd=3, until="06:00", in_flight=2)
    ids = table.start(shift, look(table, shift))

    request = shift.records.request(ids["a"])
    assert (request.night_id, request.tool, request.card.queue) == (shift.night_id, "night", "night")
    assert (request.budgets.per_night_usd, request.limits.budget_usd) == (3, 0.5)
    assert request.patience.longest_wait_seconds == 0  # that night is long over
    assert shift.night_id.startswith("night-20260430-")
    assert shift.open_children() == [ids["a"]]
    assert look(table, shift).start == ()


def test_a_delegation_of_a_night_carries_its_card_its_tags_and_its_number_and_tells_nobody(table: "Table"):
    table.environ["DELEGATE_NOTIFY"] = "true"
    table.write(a="tags: [soon, sums]\nattempts: 2")
    shift = table.open()
    table.start(shift, look(table, shift))
    first, second = (shift.records.request(child.delegation_id) for child in shift.ledger.children())

    assert set(tags_of(first)) >= {"card:a", "tag:soon", "tag:sums", first.id, "bucket:local-", "model:local-scripted"}
    assert shift.name_of(first) == f"{run_name_of(first)} · 1 of 2"
    assert shift.name_of(second).endswith(" · 2 of 2")
    assert first.notify is None


def test_a_kill_at_any_point_between_row_record_and_ledger_gives_the_same_delegation(table: "Table"):
    table.write(a="")
    shift = table.open()
    first = table.start(shift, look(table, shift))["a"]
    ledger = shift.folder / "children.jsonl"
    whole = ledger.read_bytes()
    for left in (b"", whole[:40], '{"card":"ä'.encode()[:-1]):  # within a character
        ledger.write_bytes(left)
        again = table.open()
        assert table.start(again, look(table, again)) == {"a": first}
        assert [child.delegation_id for child in again.ledger.children()] == [first]
    (shift.records.folder(first) / "entry.json").unlink()
    ledger.unlink()
    again = table.open()
    assert table.start(again, look(table, again)) == {"a": first}
    assert shift.records.ids() == [first]


def test_called_again_what_is_done_stays_done_failed_is_tried_anew_and_edited_is_another_card(table: "Table", end: End):
    table.write(**dict.fromkeys("abcdef", ""))
    shift = table.open()
    ids = table.start(shift, look(table, shift))
    end(shift, ids["a"])
    end(shift, ids["b"], "refuted")
    end(shift, ids["c"], "failed")
    end(shift, ids["d"], "cancelled")
    assert look(table, shift).start == ()  # the same part tries nothing anew

    table.write(f="verify: 'true'")
    again = table.open("part-2")
    assert starting(look(table, again)) == ["c", "d", "f"]
    anew = table.start(again, look(table, again))
    assert not set(anew.values()) & set(ids.values())
    assert look(table, again).start == ()
    end(again, anew["c"], "failed")
    assert look(table, again).start == ()
    third = table.open("part-3")
    assert starting(look(table, third)) == ["c"]
    assert len(shift.records.ids()) == 9


def test_another_night_does_the_cards_again_but_one_with_a_key_only_once_ever(table: "Table", end: End):
    table.write(a="", b="key: once", c="key: failed-once")
    first = table.open(name="one")
    ids = table.start(first, look(table, first))
    end(first, ids["a"])
    end(first, ids["b"])
    end(first, ids["c"], "failed")
    second = table.open("part-2", name="two")
    again = table.start(second, look(table, second))

    assert (again["a"] == ids["a"], again["b"] == ids["b"], again["c"] == ids["c"]) == (False, True, True)
    assert look(table, second).start == ()
    assert report_of(second, look(table, second), second.begun).costs == Costs(), "the first night paid for them"
    third = table.open("part-3", name="two")
    table.start(third, look(table, third))
    assert look(table, third).start == ()


def test_what_failed_under_its_key_in_an_earlier_night_is_no_error_of_this_one(table: "Table", end: End):
    table.write(**{f"old{number}": f"key: key-{number}" for number in range(8)}, new="")
    first = table.open(name="one", in_flight=20)
    for name in table.start(first, look(table, first)).values():
        if first.records.request(name).card.key != "key-7":
            end(first, name, "failed")
    second = table.open("part-2", name="two", in_flight=20)
    ids = table.start(second, look(table, second))
    decision = look(table, second)

    assert (decision.stopped, decision.passed_over) == (None, {})
    assert second.standing(table.state, second.begun).ended_now == []
    assert [name for name in second.open_children() if second.is_ours(name)] == [ids["new"]]
    end(second, ids["new"], "failed")
    assert second.standing(table.state, second.begun).ended_now == ["failed"]
    report = report_of(second, look(table, second), second.begun)
    lines = {line.card: line for line in report.lines}
    assert {line.done_elsewhere for name, line in lines.items() if name != "new"} == {"in night-one"}
    assert (lines["new"].done_elsewhere, lines["old7"].group) == (None, "running")
    assert "begun in night-one, under the key of this card" in markdown(report).replace("\\", "")
    assert report.go_on is not None, "the new one is left to be done"
    end(third := table.open("part-3", name="two", in_flight=20), table.start(third, look(table, third))["new"])
    assert report_of(third, look(table, third), third.begun).go_on is None, "nothing is done anew under a used key"


def test_a_card_that_builds_on_another_starts_from_the_commit_of_its_best_attempt(table: "Table", end: End):
    table.write(a="attempts: 2", b="depends_on: [a]\nbuild_on: true")
    shift = table.open()
    for start in look(table, shift).start:
        shift.enter(table.state, start)
    one, two = [child.delegation_id for child in shift.ledger.children()]
    commit = subprocess.run(
        ["git", "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "change"],
        cwd=table.repo, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    subprocess.run(["git", "update-ref", f"refs/delegate/{two}/patch", commit], cwd=table.repo, check=True)
    end(shift, one, "refuted")
    assert look(table, shift).start == ()
    end(shift, two)
    below = table.start(shift, look(table, shift))["b"]

    assert shift.records.request(below).base_commit == commit
    assert starting(look(table, table.open())) == []


def test_a_card_that_builds_on_one_that_cannot_be_read_is_passed_over_and_ends_no_night(table: "Table"):
    table.write(b="depends_on: [a]\nbuild_on: true", c="")
    (table.cards / "a.md").write_text("---\nid: a\nmodle: x\n---\nDo a.\n")
    shift = table.open()
    decision = look(table, shift)
    assert starting(decision) == ["c"]
    assert decision.passed_over == {"b": "it depends on 'a', whose card cannot be read"}


def test_a_thousand_cards_that_build_on_each_other_are_looked_at_quickly_and_begin_one_by_one(table: "Table", end: End):
    table.write(first="")
    shift = table.open()
    lines = [
        {"id": f"n{n:04}", "repo": str(table.repo), "task": f"Do {n}"}
        | ({"depends_on": [f"n{n - 1:04}"], "build_on": True} if n else {})
        for n in range(1000)
    ]
    (table.cards / "first.md").unlink()
    (table.cards / "chain.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    found = read_cards(table.cards, shift.settings.home.no_repository)
    jobs = tuple(Job(each.id, each.fields.depends_on, rank=rank) for rank, each in enumerate(found.cards))
    chain = replace(shift, found=found, jobs=jobs)  # each is looked at by git when a night begins, which takes longer
    ids = table.start(chain, look(table, chain))
    end(chain, ids["n0000"], "unverified")
    begun = time.monotonic()
    assert starting(look(table, chain)) == ["n0001"]
    report = report_of(chain, look(table, chain), chain.begun)
    assert time.monotonic() - begun < 10
    assert (len(report.lines), report.counts) == (1000, {"unverified": 1, "passed_over": 999})


def test_a_card_that_cannot_be_admitted_is_refused_with_the_reason_and_stops_no_other(table: "Table"):
    table.write(a="model: nosuch", b="", c="depends_on: [a]")
    shift = table.open()
    decision = look(table, shift)
    assert starting(decision) == ["b"]
    assert decision.passed_over["a"].startswith("it was refused: unknown model 'nosuch'")
    assert decision.passed_over["c"] == "it depends on 'a', which did not begin"


def test_a_repository_that_goes_away_before_its_turn_is_a_refusal_too(table: "Table", tmp_path: Path):
    table.write(a="")
    shift = table.open()
    decision = look(table, shift)
    table.repo.rename(tmp_path / "elsewhere")
    assert table.start(shift, decision) == {}
    after = look(table, shift)
    assert (after.is_over, after.start) == (True, ())
    assert "does not exist" in after.passed_over["a"]


def test_what_was_spent_is_what_is_known_and_flat_plans_cost_nothing(table: "Table", end: End):
    table.write(a="", b="", c="", d="")
    shift = table.open(budget_usd=0.75, in_flight=3)
    ids = table.start(shift, look(table, shift))
    end(shift, ids["a"])
    end(shift, ids["b"], cost={"amount_usd": 0.5, "kind": "estimated"})
    assert shift.spent_usd() == 0.75
    assert look(table, shift).stopped == "budget"
    end(shift, ids["c"], cost={"amount_usd": 9.0, "kind": "flat_plan"})
    assert shift.spent_usd() == 0.75


def test_only_a_spent_quota_is_waited_for_by_the_night_a_throttled_pool_by_its_delegations(table: "Table"):
    table.write(a="")
    shift = table.open()
    (pool,) = shift.jobs[0].pools
    now, until = shift.begun, shift.begun + timedelta(hours=2)
    cooldowns.begin(table.state, pool, until=until, kind="throttled", reason="x", now=now)
    assert starting(look(table, shift)) == ["a"]
    cooldowns.begin(table.state, pool, until=until + timedelta(hours=1), kind="quota", reason="x", now=now)
    decision = look(table, shift)
    assert (decision.start, decision.look_again) == ((), until + timedelta(hours=1))


@pytest.mark.parametrize(("name", "next_one"), [("request.json", "b"), ("receipt.json", "a")])
def test_a_damaged_record_of_one_card_does_not_end_the_night(table: "Table", end: End, name: str, next_one: str):
    """Where the receipt is gone nothing of the outcome is known, and the card is done anew by the next part."""
    table.write(a="priority: 2", b="priority: 1")
    shift = table.open(in_flight=1)
    ids = table.start(shift, look(table, shift))
    end(shift, ids["a"], "verified")
    (shift.records.folder(ids["a"]) / name).write_text("{torn")
    again = table.open("part-2", in_flight=1)
    assert starting(look(table, again)) == [next_one]


def test_the_ledger_survives_a_line_that_was_cut_off(tmp_path: Path):
    ledger = Ledger(tmp_path)
    one, two = (Child(card=c, content="x", number=1, delegation_id=f"dg-{c}", part="p") for c in "ab")
    ledger.note(one)
    with (tmp_path / "children.jsonl").open("a") as stream:
        stream.write('{"card": "cut')
    ledger.note(two)
    assert ledger.children() == [one, two]
