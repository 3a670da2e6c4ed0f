"""The report's pages: whatever a model wrote into any field is text there, bounded, and nothing else."""

import json
import re
import shlex
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delegation.comparison.pages import html, markdown
from delegation.comparison.report import report_of
from delegation.comparison.side_by_side import rows_of
from delegation.receipt import PatchSummary

if TYPE_CHECKING:
    from tests.core.comparison.conftest import Bench

HOSTILE = (
    "</pre></style></details><script>alert(1)</script><img src=x onerror=alert(2)><svg/onload=alert(3)>"
    "<a href='javascript:alert(4)'>x</a><iframe srcdoc='<script>5</script>'></iframe>"
    "![x](http://evil.example/a.png) [y](javascript:alert(6)) `` | &lt;b&gt; \" ' <!-- <meta http-equiv=refresh>"
)
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "h4", "p", "ul", "li", "table", "tr", "th",
    "td", "div", "details", "summary", "pre", "code", "a",
}  # fmt: skip


class Page(HTMLParser):
    """Which elements and attributes there are, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.links: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {(tag, name) for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile(bench: "Bench") -> Any:
    """A comparison in which everything that a model or its commands can write is hostile."""
    trials = bench.begun("a", "b", repeats=2, card=bench.card(f"{HOSTILE}\n\nFix it", verify=f"true # {HOSTILE}"))
    for model in ("a", "b"):
        for repeat in (1, 2):
            folder = bench_folder(trials, model, repeat)
            (folder / "patch.diff").write_text(f"--- a/x\n+++ b/x\n+{HOSTILE}\n", encoding="utf-8")
            events = [
                {"type": "header", "agent": HOSTILE, "model": HOSTILE, "task": HOSTILE},
                {
                    "type": "reply",
                    "turn": 1,
                    "message": {"blocks": [{"text": HOSTILE}, {"name": f"\ud800{HOSTILE}", "input": {}}]},
                },
                {"type": "result", "turn": 1, "text": HOSTILE, "is_error": True},
                {"type": HOSTILE, "turn": HOSTILE, "text": HOSTILE},
            ]
            lines = [json.dumps({"seq": seq, "time": HOSTILE, **event}) for seq, event in enumerate(events)]
            (folder / "trajectory.jsonl").write_text("\n".join(lines), encoding="utf-8")
    size = PatchSummary(path=HOSTILE, files=1, insertions=1, deletions=0, sha256="0" * 64)
    bench.end(trials, "a", 1, "failed", failure_kind="refused", failure_message=HOSTILE, claim=HOSTILE, patch=size)
    bench.end(trials, "a", 2, "verified", response_model=HOSTILE, fallback_note=HOSTILE, answer=HOSTILE, patch=size)
    bench.end(trials, "b", 1, "refuted", claim=HOSTILE, ui_url="javascript:alert(7)", patch=size)
    bench.end(trials, "b", 2, "verified", ui_url="http://127.0.0.1:4200/runs/x")
    return trials


def bench_folder(trials: Any, model: str, repeat: int) -> Any:
    found = next(each for each in trials.comparison.trials if (each.model, each.repeat) == (model, repeat))
    return trials.records.folder(found.delegation_id)


def test_hostile_output_is_text_in_the_page_and_nothing_else(bench: "Bench"):
    trials = hostile(bench)
    report = report_of(trials)
    text = html(report, rows_of(trials, report.trials))
    page = Page(text)

    assert text.encode(), "half a character in a tool's name is none in the page"
    assert page.open == []
    assert page.seen <= ALLOWED
    assert {name for _, name in page.attributes} <= {
        "class",
        "href",
        "charset",
        "http-equiv",
        "content",
        "name",
        "lang",
        "open",
    }
    assert set(page.links) == {"http://127.0.0.1:4200/runs/x"}
    assert text.count("<script") == 0
    assert text.count("&lt;script&gt;") > 20
    assert "default-src &#x27;none&#x27;" in text, "and the browser is told to run and fetch nothing"
    assert text.count("<style>") == 1


def test_hostile_output_is_text_in_the_markdown(bench: "Bench"):
    text = markdown(report_of(hostile(bench)))
    assert not re.search(r"(?<!\\)!\[|(?<!\\)<|(?<!\\)\]\(javascript", text)
    assert "http\\://evil" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {13, 11}, "no cell breaks out of its row"


def test_the_page_is_bounded_and_says_where_the_rest_is(bench: "Bench"):
    trials = bench.begun("a", "b")
    folder = bench_folder(trials, "a", 1)
    (folder / "patch.diff").write_bytes(b"+x\n" * 300_000)
    with (folder / "trajectory.jsonl").open("w") as log:
        for seq in range(5_000):
            event = {"seq": seq, "time": "t", "type": "result", "turn": 1, "text": f"<{seq}>" * 5_000}
            log.write(json.dumps(event) + "\n")
    bench.end(trials, "a", 1, "refuted", claim="c" * 1_000_000)
    report = report_of(trials)
    ((a, b),) = rows_of(trials, report.trials)

    name = trials.comparison.trials[0].delegation_id
    assert len(html(report, [[a, b]])) < 400_000
    assert len(a.steps) + a.left_out == 5_000
    assert a.steps
    assert re.search(
        rf"{a.left_out} more: <code>DELEGATE_HOME=.*delegate transcript {name}</code>", html(report, [[a, b]])
    )
    assert f"delegate patch {name}` has it all" in (a.patch or "")
    assert (b.said, b.patch, b.steps, b.left_out) == (None, None, (), 0)


def test_the_commands_of_a_trial_name_the_home_and_the_program_as_a_nights_do(bench: "Bench"):
    trials = bench.begun("a", "b", repeats=2)
    size = PatchSummary(path="/x", files=1, insertions=1, deletions=0, sha256="0" * 64)
    for model, repeat, outcome in (("a", 1, "verified"), ("b", 1, "refuted"), ("a", 2, "no_change")):
        bench.end(trials, model, repeat, outcome, patch=None if outcome == "no_change" else size)
    begin = f"DELEGATE_HOME={shlex.quote(str(trials.settings.home.root))} {Path(sys.executable).with_name('delegate')}"
    names = {(each.model, each.repeat): each.delegation_id for each in trials.comparison.trials}
    report = report_of(trials)
    commands = {(line.model, line.repeat): line.commands for line in report.trials}
    name = names["b", 1]
    assert commands["b", 1] == {
        "look": f"{begin} show {name}", "accept": f"{begin} apply {name} --any-outcome",
        "transcript": f"{begin} transcript {name}",
    }  # fmt: skip
    assert commands["a", 1]["accept"] == f"{begin} apply {names['a', 1]}"
    assert set(commands["a", 2]) == set(commands["b", 2]) == {"look", "transcript"}, "there is nothing to take home"
    page = html(report, rows_of(trials, report.trials))
    assert f"<code>{escape(begin)} apply {name} --any-outcome</code>" in page
    assert f"`{begin} apply {name} --any-outcome`" in markdown(report)
    shown = subprocess.run(
        ["sh", "-c", commands["a", 1]["look"]], env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (shown.returncode, names["a", 1] in shown.stdout) == (0, True), shown.stderr


def test_the_trials_of_one_number_stand_beside_each_other_in_the_order_of_the_models(bench: "Bench"):
    trials = bench.begun("b", "a", repeats=2)
    bench.end(trials, "a", 1, "verified", claim="done by a")
    rows = rows_of(trials, report_of(trials).trials)
    assert [[(column.line.model, column.line.repeat) for column in row] for row in rows] == [
        [("b", 1), ("a", 1)], [("b", 2), ("a", 2)],
    ]  # fmt: skip
    assert rows[0][1].said == "done by a"


def test_a_column_tells_how_its_model_worked(bench: "Bench"):
    trials = bench.begun("a", "b")
    calls = [{"name": "read_file", "input": {}}, {"name": "run_bash", "input": {}}, {"name": "read_file", "input": {}}]
    events = [
        {"type": "reply", "turn": 1, "message": {"blocks": [{"text": "Hm."}, *calls[:2]]}},
        {"type": "reply", "turn": 2, "message": {"blocks": calls[2:]}},
        {"type": "reply", "turn": 3, "message": None},
    ]
    lines = [json.dumps({"seq": seq, "time": "t", **event}) for seq, event in enumerate(events)]
    (bench_folder(trials, "a", 1) / "trajectory.jsonl").write_text("\n".join(lines))
    usage = {"input_tokens": 1200, "output_tokens": None, "requests": 4}
    bench.end(trials, "a", 1, "refuted", turns=3, malformed_calls=1, bash_failures=2, usage=usage)
    report = report_of(trials)
    text = html(report, rows_of(trials, report.trials))
    assert (
        "Tools: 2 read_file, 1 run_bash; 1 malformed call; 2 failed commands; 4 requests in 3 turns; "
        "1,200 tokens in, unknown out."
    ) in text


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_what_has_not_ended_says_so_in_both(bench: "Bench", state: str):
    trials = bench.begun("a", "b") if state == "running" else bench.open(bench.plan("a", "b"))
    report = report_of(trials)
    page = html(report, rows_of(trials, report.trials))
    for text in (markdown(report), page):
        assert "0 of 2 trials have ended" in text
        assert f"a | {state}" in text or f"<td>a</td><td>{state}</td>" in text
