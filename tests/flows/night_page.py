"""The report of a night as a page of the documentation: the same words, without the paths of the machine it ran on."""

import re
from collections.abc import Mapping
from pathlib import Path

from delegation.night.pages import markdown
from delegation.night.report import NightReport

PAGE = Path(__file__).parents[2] / "docs" / "examples" / "night-of-sixty.md"
MODELS_AT = "http://models.example"
_ABOUT = """\
# A night of sixty cards

The report of a night in miniature, as `report.md` had it: real cards, worktrees, patches and verdicts, and scripted
models. Of the sixty cards 48 can be read, in Markdown, YAML, JSON and JSON lines, with and without byte-order mark, in
UTF-8 and UTF-16, with both line ends; twelve cannot. The models of three pools answered on a bad line
({faults}),
and the night's process was killed by SIGKILL in the middle: none was lost, and none was done twice.

Paths and addresses stand for yours, and links to the UI are left out. `tests/flows/test_night_of_sixty.py` works that
night again and compares this page with its report; with `--write-examples` it writes it anew.
[Night shifts](../how-to/night-shift.md) says what the groups and commands mean.
"""


def page_of(report: str, places: Mapping[str, str], faults: Mapping[str, int]) -> str:
    """`report` is the report as JSON; `places` says what stands for which path."""
    for path, stands_for in places.items():
        report = report.replace(path, stands_for)
    report = re.sub(r"DELEGATE_HOME=\S+ (\S*/)?delegate ", "delegate ", report)
    report = re.sub(r'"ui_url":\s*"[^"]*"', '"ui_url": null', report)
    told = ", ".join(f"{number} x {name}" for name, number in sorted(faults.items()))
    text = markdown(NightReport.model_validate_json(report))
    return _ABOUT.format(faults=told) + "\n" + re.sub(r"^#", "##", text, flags=re.MULTILINE)


def sections(page: str) -> dict[str, list[str]]:
    """The groups with the cards that stand in each."""
    found: dict[str, list[str]] = {}
    cards: list[str] = []
    for line in page.splitlines():
        if heading := re.fullmatch(r"### (.+) \(\d+\)", line):
            cards = found.setdefault(heading[1], [])
        elif card := re.match(r"- \*\*(.+?)\*\*", line):
            cards.append(card[1])
    return found
