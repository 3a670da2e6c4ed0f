"""What the notify command hears of a night."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from delegation.night.notice import tell_problem, tell_report
from delegation.night.report import report_of
from delegation.night.scheduler import decide
from delegation.notification.notice import Hook

if TYPE_CHECKING:
    from tests.core.night.conftest import Table

HOOK = Hook(command="cat", seconds=20)


def test_it_hears_how_many_of_each_what_they_cost_by_kind_and_where_the_page_is(
    table: "Table", end: Callable[..., Any]
):
    table.write(a="", b="", c="depends_on: [b]")
    shift = table.open()
    ids = table.start(shift, decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun)))
    end(shift, ids["a"])
    end(shift, ids["b"], "failed", cost={"amount_usd": None, "kind": "unknown"})
    last = decide(shift.jobs, shift.rules, shift.standing(table.state, shift.begun))
    report = report_of(shift, last, shift.begun + timedelta(hours=1), "http://127.0.0.1:1/runs/x")
    heard = tell_report(HOOK, report, home=shift.settings.home, folder=shift.folder)

    assert heard
    assert json.loads(heard.output) == {
        "kind": "night", "id": shift.night_id, "title": "Night of cards", "summary": "1 of 3 cards accepted.",
        "report": str(shift.folder / "report.html"), "ui_url": "http://127.0.0.1:1/runs/x", "cards": 3, "accepted": 1,
        "counts": {"verified": 1, "failed": 1, "passed_over": 1}, "stopped": None, "problem": None,
        "costs": {"reported_usd": 0.25, "estimated_usd": None, "flat_plan": 0, "unknown": 1},
    }  # fmt: skip
    assert (shift.folder / "notification.json").exists()


def test_it_hears_why_there_is_no_report(table: "Table"):
    table.write(a="")
    home = table.open().settings.home
    heard = tell_problem(HOOK, "Night of gone", "/x/gone", "there is no folder", home=home, ui_url=None)
    assert heard
    told = json.loads(heard.output)
    assert (told["report"], told["problem"]) == (None, "there is no folder")
    assert told["summary"] == "It could not be worked: there is no folder"


def test_without_a_command_nobody_is_told(table: "Table"):
    table.write(a="")
    home = table.open().settings.home
    assert tell_problem(None, "x", "/x", "y", home=home, ui_url=None) is None
    assert not (home.nights / "notification.json").exists()
