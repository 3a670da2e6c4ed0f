"""The morning report: each card once, with what a person may do now, and nothing of a card's text that is more."""

import re
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegation.night.pages import html, markdown
from delegation.night.report import NightReport, report_of
from delegation.night.scheduler import decide
from delegation.night.shift import Shift
from delegation.records.index import History
from delegation.records.statistics import statistics_of

if TYPE_CHECKING:
    from tests.core.night.conftest import Table

BEGUN = datetime(2026, 5, 1, 1, 0, tzinfo=UTC)
EVIL = "<script>alert(1)</script> ![x](http://evil.example/a.png) | `"


def played(table: "Table", end: Callable[..., Any]) -> tuple[Shift, NightReport]:
    outcomes = ["verified", "refuted", "unverified", "no_change", "answered", "failed", "cancelled", "lost", "running"]
    table.write(**dict.fromkeys(outcomes, ""))
    table.write(best="attempts: 3\nreview_by: 2026-05-02\ntags: [soon]", after="depends_on: [refuted]")
    (table.cards / "broken.yaml").write_text("task: a: b\n")
    (table.cards / "evil.md").write_text(f"---\nrepo: {table.repo}\n---\n{EVIL}\n")
    (table.cards / "notes.txt").write_text("")
    shift = table.open(in_flight=50)
    decision = decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun))
    ids: dict[str, list[str]] = {}
    for start in decision.start:
        entered = shift.enter(table.state, start)
        assert entered
        ids.setdefault(start.job, []).append(entered.request.id)
    for outcome in outcomes[:7]:
        end(shift, ids[outcome][0], outcome)
    end(shift, ids["lost"][0], "failed", failure_kind="lost", failure_message="its process died")
    end(shift, ids["best"][0], "refuted", cost={"amount_usd": 0.125, "kind": "estimated"})
    end(shift, ids["best"][1], cost={"amount_usd": None, "kind": "unknown"})
    end(shift, ids["best"][2], "failed", cost={"amount_usd": 9.0, "kind": "flat_plan"})
    end(shift, ids["evil"][0], "failed", failure_message=EVIL)
    last = decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun + timedelta(hours=2)))
    return shift, report_of(shift, last, shift.begun + timedelta(hours=2, minutes=5))


def test_every_card_is_in_the_report_once_in_the_group_of_its_best_attempt(table: "Table", end: Callable[..., Any]):
    _, report = played(table, end)
    groups = {line.card: line.group for line in report.lines}

    assert groups == {
        "verified": "verified", "refuted": "refuted", "unverified": "unverified", "no_change": "no_change",
        "answered": "answered", "failed": "failed", "cancelled": "cancelled", "lost": "unknown", "running": "running",
        "best": "verified", "after": "passed_over", "evil": "failed", "broken": "broken",
    }  # fmt: skip
    assert len(report.lines) == len(groups)
    lines = {line.card: line for line in report.lines}
    assert {name for name, line in lines.items() if line.accepted} == {"verified", "unverified", "answered", "best"}
    assert lines["after"].reason == "It did not begin: it depends on 'refuted', which ended as refuted."
    assert "broken.yaml:1: is not YAML" in lines["broken"].reason
    assert "its process died" in lines["lost"].reason
    assert [line.card for line in report.of("verified")] == ["best", "verified"]
    assert [(each.outcome, each.chosen) for each in lines["best"].tried] == [
        ("refuted", False), ("verified", True), ("failed", False),
    ]  # fmt: skip
    best = lines["best"].tried[1].delegation_id
    assert (lines["best"].delegation_id, lines["best"].seconds, lines["best"].model) == (best, 75.0, "local-scripted")


def test_costs_stand_side_by_side_by_kind_and_are_never_one_sum(table: "Table", end: Callable[..., Any]):
    _, report = played(table, end)
    lines = {line.card: line for line in report.lines}
    assert report.costs.text == "$2.250000, ~$0.1250 estimated, 1 on a flat plan, 1 unknown"
    assert lines["best"].cost == "~$0.1250 estimated, 1 on a flat plan, 1 unknown"
    assert lines["verified"].cost == "$0.250000"
    assert report.spent_usd == 2.375  # what a budget counts


def test_a_card_costs_what_lists_and_statistics_say(table: "Table", end: Callable[..., Any]):
    """One rule: nothing where no answer ever began, and what is known counts though nobody counted its tokens."""
    table.write(refused="", login="", answered="", torn="")
    shift = table.open()
    ids = table.start(shift, decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun)))
    unknown = {"cost": {"amount_usd": None, "kind": "unknown"}}
    end(shift, ids["refused"], "failed", turns=None, usage={"requests": 4}, **unknown)
    end(shift, ids["login"], turns=None, usage=None, cost={"amount_usd": None, "kind": "flat_plan"})
    end(shift, ids["answered"], **unknown)
    end(shift, ids["torn"])
    (shift.records.folder(ids["torn"]) / "receipt.json").write_text("{torn")
    again = table.open()
    last = decide(again.jobs, again.rules, again.standing(table.state, again.begun))
    report = report_of(again, last, again.begun)
    assert report.costs.text == "1 on a flat plan, 2 unknown"
    assert {line.card: line.cost for line in report.lines} == {
        "refused": "nothing", "login": "flat plan", "answered": "unknown", "torn": "unknown",
    }  # fmt: skip
    rows = {row.id: row for row in History(shift.settings.home).rows()}
    counted = statistics_of(rows.values(), ["day"]).overall.costs
    assert [(cost.kind, cost.delegations) for cost in counted] == [("flat_plan", 1), ("unknown", 1)]
    assert rows[ids["torn"]].problem is not None, "which statistics leave out"


def test_the_commands_are_ready_for_a_shell(table: "Table", end: Callable[..., Any]):
    table.environ["PATH"] = f"{Path(sys.executable).parent}:{table.environ['PATH']}"
    shift, report = played(table, end)
    lines = {line.card: line for line in report.lines}
    begin = f"DELEGATE_HOME={shlex.quote(str(shift.settings.home.root))} delegate"
    name, repo = lines["verified"].delegation_id, shlex.quote(str(table.repo))
    assert lines["verified"].commands == {
        "accept": f"{begin} apply {name}",
        "retry": f"{begin} rerun {name}",
        "drop": f"git -C {repo} branch -D delegate/{name}",
    }
    tried = sorted(f"delegate/{each.delegation_id}" for each in lines["best"].tried[:2])
    assert lines["best"].commands["drop"] == f"git -C {repo} branch -D {' '.join(tried)}"
    assert lines["refuted"].commands["accept"].endswith(" --any-outcome")
    assert set(lines["failed"].commands) == set(lines["lost"].commands) == {"retry"}
    assert lines["running"].commands == {"look": f"{begin} show {lines['running'].delegation_id}"}
    go_on = f"{begin} night {table.cards} --name {shift.night_id.removeprefix('night-')}"
    assert report.go_on == lines["after"].commands["retry"] == lines["broken"].commands["retry"] == go_on
    assert lines["broken"].commands["check"] == f"{begin} cards {table.cards}"


def test_the_command_that_goes_on_names_this_very_night_at_any_hour(table: "Table"):
    table.write(a="")
    shift = table.open()
    again = table.open(name=shift.night_id.removeprefix("night-"))
    assert again.night_id == shift.night_id


def test_commands_name_the_program_by_its_path_where_no_path_leads_to_it(table: "Table"):
    table.write(a="model: nosuch")
    table.environ["PATH"] = "/nowhere"
    shift = table.open()
    (line,) = report_of(shift, decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun)), BEGUN).lines
    assert f" {shlex.quote(str(Path(sys.executable).with_name('delegate')))} night " in line.commands["retry"]


class Page(HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_a_cards_text_is_only_text(table: "Table", end: Callable[..., Any]):
    _, report = played(table, end)
    page = Page()
    page.feed(html(report))

    assert page.open == []
    assert not page.seen & {"script", "img", "link", "iframe"}
    assert page.links == []
    assert "&lt;script&gt;" in html(report)
    text = markdown(report)
    assert not re.search(r"(?<!\\)!\[|(?<!\\)<script", text)
    assert "http\\://evil" in text
    assert "13 cards in" in text
    assert "2 verified, 1 answered, 1 unverified, 1 refuted, 1 no change, 2 failed, 1 unknown outcome" in text
    assert "From 2026-05-01 01:00 to 2026-05-01 03:05 UTC, 2 h 5 min." in text
    assert "Cost: $2.250000, ~$0.1250 estimated, 1 on a flat plan" in text.replace("\\", "")
    assert f"To do what is left: `{report.go_on}`" in text
    assert "## Files that are no cards\n\n- notes.txt" in text.replace("\\", "")


def test_a_night_that_was_stopped_says_why(table: "Table"):
    table.write(a="")
    shift = table.open(until="01:30")
    late = decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun + timedelta(hours=1)))
    report = report_of(shift, late, shift.begun + timedelta(hours=1))
    assert report.stopped == "Its time was over."
    assert "Stopped early" in markdown(report)
    assert report.lines[0].reason == "It did not begin: the night ended at 2026-05-01 01:30 UTC before it began."
