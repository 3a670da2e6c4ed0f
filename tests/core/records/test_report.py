"""The receipt as a page for people: what matters first, and nothing of a model's words becomes markup."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from markdown_it import MarkdownIt

from delegation.command_lines import CommandLines
from delegation.receipt import (
    CommandRun,
    Cost,
    Flag,
    Outcome,
    PatchSummary,
    Receipt,
    Timings,
    Usage,
    Verification,
)
from delegation.records.markdown import code, fenced, plain, quoted, table
from delegation.records.report import money, patch_markdown, receipt_markdown
from delegation.records.wording import FLAGS, explanation, size_of
from delegation.settings import load_settings

ID = "dg-20261130t113652417-k7x2"
COMMIT = "8200dbea6a" + "0" * 30
CREATED = datetime(2026, 11, 30, tzinfo=UTC)


def run(verdict: str, tests: dict[str, Any] | None = None, reason: str | None = None, output: str = "") -> CommandRun:
    exit_code = {"passed": 0, "failed": 1}.get(verdict)
    return CommandRun.model_validate(
        {
            "verdict": verdict,
            "exit_code": exit_code,
            "reason": reason,
            "seconds": 0.26,
            "tests": tests,
            "output_tail": output,
        }
    )


def judged(base: str, candidate: str, /, **more: Any) -> Verification:
    values = {"command": "pytest -q", "verdict": candidate, "base": run(base), "candidate": run(candidate), **more}
    return Verification.model_validate(values)


PATCH = PatchSummary(path="/nowhere/patch.diff", files=1, insertions=4, deletions=1, sha256="0" * 64)


def receipt(outcome: str, **more: Any) -> Receipt:
    values = {
        "id": ID,
        "outcome": outcome,
        "expects": "change",
        "agent": "coder",
        "agent_source": "built-in",
        "model_requested": None,
        "model_used": "m",
        "bucket": "m",
        "lane": "local",
        "repo": "/r",
        "base_commit": COMMIT,
        "cost": Cost(amount_usd=None, kind="unknown"),
        "created_at": CREATED,
        **more,
    }
    return Receipt.model_validate(values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            receipt("verified", verification=judged("failed", "passed")),
            "Accepted: the verify command fails on the base commit and passes with the patch.",
        ),
        (
            receipt("verified", verification=judged("passed", "passed")),
            "Accepted: the verify command passes with the patch, as it does on the base commit.",
        ),
        (
            receipt("verified", verification=judged("failed", "failed", verdict="passed")),
            "Accepted: some tests fail as they do on the base commit, and the patch makes nothing worse.",
        ),
        (
            receipt("refuted", verification=judged("passed", "failed", newly_failing=("t::a",))),
            "NOT accepted: with the patch, 1 test fails that passed on the base commit.",
        ),
        (
            receipt("refuted", verification=judged("failed", "failed", still_failing=("t::a", "t::b"))),
            "NOT accepted: with the patch, 2 tests fail as on the base commit.",
        ),
        (
            receipt("refuted", verification=judged("passed", "passed", verdict="failed", missing_wants=("t::a",))),
            "NOT accepted: 1 wanted test did not pass.",
        ),
        (
            receipt("refuted", verification=judged("failed", "failed")),
            "NOT accepted: the verify command fails with the patch.",
        ),
        (receipt("unverified"), "Not judged: there is a patch, but the card has no verify command."),
        (
            receipt("unverified", verification=judged("none", "none", reason="no tests ran")),
            "Not judged: the verify command gave no verdict (no tests ran).",
        ),
        (receipt("no_change"), "Nothing done: the model ended without changing a file, so there is no patch."),
        (receipt("answered"), "Answered: the card asked for an answer, not for a change."),
        (
            receipt("failed", failure_kind="turn_limit", failure_message="25 of 25 turns"),
            "The work did not finish: the turn limit was reached (25 of 25 turns).",
        ),
        (receipt("cancelled"), "Cancelled: somebody ended it before it was done."),
    ],
)
def test_every_outcome_has_its_reason_in_one_sentence(given: Receipt, said: str):
    assert explanation(given) == said


def test_every_outcome_and_every_flag_has_words():
    assert all(explanation(receipt(outcome)) for outcome in get_args(Outcome))
    assert set(FLAGS) == set(get_args(Flag))


def test_the_page_begins_with_reason_task_verdict_and_patch():
    verification = judged(
        "failed",
        "passed",
        base=run("failed", {"t::a": "failed", "t::b": "passed"}, reason="1 test fails"),
        candidate=run("passed", {"t::a": "passed", "t::b": "passed"}),
        fixed=("t::a",),
    )
    page = receipt_markdown(
        receipt("verified", verification=verification, patch=PATCH, flags=("baseline_red",), claim="Fixed."),
        task="Make it right\n\nThe test says how.",
    )

    places = [page.index(text) for text in ("# Verified", "**Accepted", "## Task", "## Verdict: passed", "## Patch")]
    assert places == sorted(places)
    assert "> Make it right  \n>\n> The test says how." in page
    assert "| base commit | failed | 2 tests, 1 failing | 1 | 0.3 |" in page
    assert "| with the patch | passed | 2 tests | 0 | 0.3 |" in page
    assert "- Fixed (1): `t::a`" in page
    assert "1 tests" not in page
    assert "## Patch: 1 file, +4 -1" in page
    assert f"`delegate apply {ID}`" in page
    assert "> Fixed." in page
    assert "- `baseline_red`: the verify command already fails on the base commit" in page
    assert "| base commit | `8200dbea6a` |" in page
    assert COMMIT not in page


def test_a_failing_group_is_named_once():
    verification = judged("passed", "failed", newly_failing=("t::a",), reason="newly failing: t::a")
    page = receipt_markdown(receipt("refuted", verification=verification, patch=PATCH))
    assert page.lower().count("newly failing") == 1
    assert page.count("t::a") == 1


def test_the_reason_is_shown_where_there_is_no_verdict():
    page = receipt_markdown(receipt("unverified", verification=judged("failed", "none", reason="no *tests* ran")))
    assert "\nno \\*tests\\* ran\n" in page


def test_the_output_of_a_candidate_that_fails_is_shown_and_cannot_close_its_block():
    failing = judged("passed", "failed", candidate=run("failed", output="E  assert 1\n```\n# not a heading"))
    page = receipt_markdown(receipt("refuted", verification=failing, patch=PATCH))
    assert "````\nE  assert 1\n```\n# not a heading\n````" in page


def test_without_a_patch_none_is_offered():
    page = receipt_markdown(receipt("no_change", transcript_path="/t"))
    assert "delegate apply" not in page
    assert "delegate patch" not in page
    assert f"`delegate show {ID}` · `delegate transcript {ID}`" in page


def test_its_commands_name_a_home_that_is_not_the_usual_one(tmp_path: Path):
    environ = {"DELEGATE_HOME": str(tmp_path / "my home"), "PATH": "/nowhere"}
    commands = CommandLines(load_settings(environ, tmp_path))
    page = receipt_markdown(receipt("refuted", verification=judged("failed", "failed"), patch=PATCH), "Do it", commands)
    begin = f"DELEGATE_HOME='{tmp_path}/my home' {Path(sys.executable).with_name('delegate')}"
    for verb in ("apply", "patch", "show"):
        assert f"`{begin} {verb} {ID}`" in page
    assert CommandLines(load_settings({"PATH": "/nowhere", "HOME": "/h"}, tmp_path)).of("show", "x").startswith("/")


def test_what_is_not_known_has_no_row():
    page = receipt_markdown(receipt("answered", usage=Usage(requests=1), base_commit=None, answer="42", claim="42"))
    assert "tokens" not in page
    assert "unknown / unknown" not in page
    assert "base commit" not in page
    assert "What the model says" not in page  # the claim is the answer

    known = receipt_markdown(receipt("answered", usage=Usage(input_tokens=1500), timings=Timings(agent_seconds=2)))
    assert "| tokens in / out | 1,500 / unknown |" in known
    assert "| seconds of agent / verify | 2.0 / none |" in known


def test_tokens_from_a_cache_and_kinds_of_cost_are_told_apart():
    usage = Usage(input_tokens=1500, cached_tokens=1000, output_tokens=20)
    costs = (Cost(amount_usd=0.5, kind="reported"), Cost(amount_usd=None, kind="unknown"))
    page = receipt_markdown(receipt("answered", usage=usage, cost=costs[1], costs=costs))
    assert "| tokens in / out | 1,500 (1,000 from a cache) / 20 |" in page
    assert "| cost | $0.500000 and unknown |" in page


@pytest.mark.parametrize(
    "hostile",
    [
        "![x](http://evil.example/x.png)",
        "<img src=http://evil.example/x.png>",
        "[click](http://evil.example)",
        "see https://evil.example now",
        "# heading",
        "| a | b |",
        "a **bold** `code` ~~gone~~",
        "\n\n    indented code",
        "- item",
        "1. item",
        "&lt;b&gt;",
    ],
)
def test_a_models_words_are_never_markup(hostile: str):
    """Rendered by a real Markdown renderer, the page has the text and none of its markup."""
    renderer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    html = renderer.render("\n".join(quoted(hostile)))
    inside = html.replace("<blockquote>", "").replace("</blockquote>", "").replace("<p>", "").replace("</p>", "")
    assert "<" not in inside.replace("<br />", "").replace("<br>", ""), html


def test_an_address_in_running_text_is_no_link_and_keeps_its_text():
    escaped = plain("see https://evil.example and www.evil.example")
    assert "https://" not in escaped
    assert "www." not in escaped
    assert MarkdownIt().renderInline(escaped) == "see https://evil.example and www.evil.example"


def test_failure_message_and_warnings_of_an_endpoint_are_never_markup():
    page = receipt_markdown(
        receipt(
            "failed",
            failure_kind="bad_request",
            failure_message="![x](http://e/x.png)",
            warnings=("<script>",),
            response_model="[m](http://e)",
        )
    )
    assert "![x]" not in page
    assert "<script>" not in page.replace("\\<script\\>", "")
    assert "[m](" not in page


def test_a_long_task_and_a_long_answer_are_bounded():
    page = receipt_markdown(receipt("answered", answer="x " * 100_000), task="y" * 5_000)
    assert len(page) < 70_000
    assert max(len(line) for line in page.splitlines()) < 1_300
    assert "y …" in page


def test_an_answer_keeps_its_lines_and_long_ones_are_broken():
    lines = fenced("def f():\n    return 1\n" + "word " * 60, wrap=True)
    assert lines[1:3] == ["def f():", "    return 1"]
    assert max(map(len, lines)) <= 100


def test_pieces_of_markdown_keep_their_text():
    assert code("a `b` c") == "``a `b` c``"
    assert code("`x`") == "`` `x` ``"
    assert plain("a_b") == "a\\_b"
    assert table(("a", "b"), [("x|y", "`p|q`")])[2] == "| x\\|y | `p\\|q` |"


def test_a_patch_cannot_close_its_fence_and_a_large_one_is_cut(tmp_path: Path):
    file = tmp_path / "patch.diff"
    file.write_text("+```\n+text\n")
    small = patch_markdown(PATCH.model_copy(update={"path": str(file)}))
    assert "````diff\n+```\n+text\n````" in small
    file.write_text("+x\n" * 50_000)
    large = patch_markdown(PATCH.model_copy(update={"path": str(file)}))
    assert f"Cut at 100000 of 150000 bytes; the whole is in `{file}`." in large


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(amount_usd=0.5, kind="reported"), "$0.500000"),
        (Cost(amount_usd=0.5, kind="estimated"), "~$0.5000 estimated"),
        (Cost(amount_usd=None, kind="flat_plan"), "flat plan"),
        (Cost(amount_usd=None, kind="reported"), "unknown"),
        (Cost(amount_usd=None, kind="unknown"), "unknown"),
    ],
)
def test_unknown_money_prints_no_amount(cost: Cost, said: str):
    assert money(cost) == said


def test_a_patch_is_told_by_its_size():
    assert size_of(PATCH) == "1 file, +4 -1"
    assert size_of(PATCH.model_copy(update={"files": 2})) == "2 files, +4 -1"
