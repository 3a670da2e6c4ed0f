"""What the faces show: bounded, in fixed words, and harmless to a terminal."""

import pytest
from front import Front
from rich.console import Console

from delegation.receipt import Cost, CostKind, Usage
from delegation.records.report import receipt_markdown
from mcp_entry.mcp_server.views import bounded, clipped, view_of
from mcp_entry.terminal.shown.render import printable, show_list, show_patch, show_receipt, show_running
from mcp_entry.verbs.progress import progress_line
from mcp_entry.verbs.wording import tokens_line, watch_command

USAGE = Usage(input_tokens=353_970, output_tokens=5_841)


@pytest.mark.parametrize(
    ("kind", "amount", "money"),
    [
        ("reported", 0.01137843, " ($0.011378)"),
        ("reported", 0.0, " ($0.000000)"),
        ("estimated", 0.0123, " (~$0.0123 estimated)"),
        ("flat_plan", None, " (flat plan)"),
        ("unknown", None, ""),
    ],
)
def test_the_tokens_line_shows_money_of_one_kind_and_none_that_is_unknown(
    kind: CostKind, amount: float | None, money: str
):
    line = tokens_line(USAGE, Cost(amount_usd=amount, kind=kind))

    assert line == f"[tokens: 353970 prompt / 5841 completion / 359811 total{money}]"


def test_there_is_no_tokens_line_where_the_endpoint_never_said():
    assert tokens_line(None, Cost(amount_usd=None, kind="unknown")) is None
    assert tokens_line(Usage(input_tokens=3), Cost(amount_usd=None, kind="unknown")) is None


def test_a_long_text_keeps_head_and_tail_within_its_bytes():
    text = "head " + "é" * 5_000 + " tail"

    short = clipped(text, 500)

    assert len(short.encode()) <= 500
    assert (short[:5], short[-5:]) == ("head ", " tail")
    assert "bytes left out" in short
    assert clipped("short", 500) == "short"


def test_a_huge_receipt_makes_a_small_view(front: Front):
    names = [f"tests/test_{number}.py::test_{'x' * 300}" for number in range(10_000)]
    run = {"verdict": "failed", "exit_code": 1, "seconds": 1.0, "output_tail": "o" * 50_000}
    checked = {"command": "c" * 5_000, "verdict": "failed", "base": run, "candidate": run}
    checked |= {"newly_failing": names, "fixed": names, "still_failing": names}
    delegation_id = front.keep()
    front.end(
        delegation_id,
        "refuted",
        verification=checked,
        answer="a" * 100_000,
        claim="c" * 100_000,
        warnings=["w" * 5_000] * 500,
        failure_message="m" * 50_000,
    )

    view = view_of(front.records.summary(delegation_id), front.settings.home)

    assert len(view.model_dump_json().encode()) < 30_000
    assert view.judged is not None
    assert view.judged.newly_failing[-1] == "... and 9990 more"
    assert view.receipt_path == str(front.records.folder(delegation_id) / "receipt.json")


def test_many_views_together_stay_within_the_size(front: Front):
    delegation_id = front.keep()
    front.end(delegation_id, "answered", answer="a" * 100_000)
    view = view_of(front.records.summary(delegation_id), front.settings.home, brief=True)

    shown = bounded([view] * 30)

    assert sum(len(each.model_dump_json().encode()) for each in shown) <= 36_000
    assert [each.answer for each in shown] == [None] * 30
    assert bounded([view]) == [view]


def test_a_running_view_says_how_to_wait(front: Front):
    delegation_id = front.keep(number=7)

    view = view_of(front.records.summary(delegation_id), front.settings.home)

    assert (view.state, view.ended, view.outcome, view.number) == ("agent", False, None, 7)
    assert view.summary == "agent 2/25: run_bash"
    assert view.watch == watch_command(front.settings.home, delegation_id)
    assert view.watch.startswith(f"DELEGATE_HOME={front.home} ")
    assert view.watch.endswith(f"wait {delegation_id}")


def test_a_record_that_cannot_be_read_is_still_listed(front: Front):
    delegation_id = front.keep()
    (front.records.folder(delegation_id) / "entry.json").write_text("{ torn", encoding="utf-8")
    console = Console(record=True, width=160)

    show_list(console, list(front.records.summaries()))
    show_running(console, front.records.summary(delegation_id))

    assert "unreadable" in console.export_text()


@pytest.mark.parametrize(
    ("outcome", "verdict"), [("refuted", "failed"), ("unverified", "none"), ("verified", "passed")]
)
def test_after_a_verdict_that_is_no_yes_the_files_with_the_output_are_named(front: Front, outcome: str, verdict: str):
    delegation_id = front.keep()
    folder = front.records.folder(delegation_id)
    runs = {
        name: {
            "verdict": told,
            "exit_code": 1,
            "seconds": 1.0,
            "output_tail": "",
            "log_path": str(folder / f"{name}.log"),
        }
        for name, told in (("base", "passed"), ("candidate", verdict))
    }
    for name in runs:
        (folder / f"{name}.log").write_text("FAILED\n", encoding="utf-8")
    checked = {"command": "pytest -q", "verdict": verdict, **runs}
    receipt = front.end(delegation_id, outcome, verification=checked, patch=b"+x\n")
    console = Console(record=True, width=250)

    show_receipt(console, receipt)

    shown, judged = console.export_text(), view_of(front.records.summary(delegation_id), front.records.home).judged
    assert ("candidate.log" in shown, "base.log" in shown) == (verdict != "passed", verdict != "passed")
    if verdict != "passed":
        assert (
            f"  output     {folder}/candidate.log (with the change)\n  output     {folder}/base.log (base)\n" in shown
        )
    assert judged is not None
    assert (judged.candidate_log, judged.base_log) == (str(folder / "candidate.log"), str(folder / "base.log"))
    page = receipt_markdown(receipt)
    assert (f"`{folder}/candidate.log`" in page, f"`{folder}/base.log`" in page) == ((verdict != "passed"),) * 2


def test_of_an_unjudged_change_another_verify_command_is_proposed(front: Front):
    receipt = front.end(front.keep(), "unverified", patch=b"+x\n")
    console = Console(record=True, width=160)

    show_receipt(console, receipt)

    assert f"delegate rerun {receipt.id} --from verify --verify 'CMD'" in console.export_text()


def test_what_a_model_wrote_cannot_drive_the_terminal(front: Front):
    delegation_id = front.keep()
    receipt = front.end(
        delegation_id, "answered", answer="\x1b]0;owned\x07done\x1b[2J [red]not markup[/red]", patch=b"+\x1b[31mred\n"
    )
    console = Console(record=True, width=160, force_terminal=False)

    show_receipt(console, receipt)
    show_patch(console, front.records.folder(delegation_id) / "patch.diff")

    shown = console.export_text()
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "]0;owneddone[2J [red]not markup[/red]" in shown
    assert printable("a\tb\nc\x00\x7f") == "a\tb\nc"


def test_nothing_known_yet_is_said():
    assert progress_line(None) == "nothing is known yet"
