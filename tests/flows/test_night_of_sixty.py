"""Nights in miniature over many cards on a bad line: none is lost and none done twice, though the process is killed."""

import json
import logging
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delegation.scripted.endpoint import ScriptedEndpoint
from tests.flows.conftest import Terminal, local_model, stack_of
from tests.flows.night_cards import MODULES, Cards, Models, shop
from tests.flows.night_page import MODELS_AT, PAGE, page_of, sections
from tests.flows.small_night import api, flow_process, until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
_FIGURES = logging.getLogger("figures")  # `pytest -o log_cli=true --log-level INFO` shows them


@pytest.fixture
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A stack of this test's own, whose records are all of one night."""
    with stack_of(Terminal(tmp_path_factory.mktemp("sixty"), {"DELEGATE_CONCURRENCY_LOCAL": "4"})) as terminal:
        yield terminal


def killed_in_the_middle(terminal: Terminal, night: dict[str, Any], after: int) -> None:
    """End the night's process by SIGKILL once so many of its delegations have their receipt."""
    process = flow_process(terminal, night["flow_run_id"])
    until(lambda: len(receipts(terminal, night["night_id"])) >= after, 400)
    os.kill(process, signal.SIGKILL)


def receipts(terminal: Terminal, night_id: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for receipt in (terminal.home / "delegations").glob("*/receipt.json"):
        folder, request = receipt.parent, receipt.with_name("request.json")
        if json.loads(request.read_text(encoding="utf-8"))["night_id"] == night_id:
            found[folder.name] = json.loads(receipt.read_text(encoding="utf-8"))
    return found


def reported(terminal: Terminal, night: dict[str, Any], seconds: float) -> dict[str, Any]:
    report = terminal.home / "nights" / night["night_id"] / "report.json"
    until(report.exists, seconds)
    return json.loads(report.read_text(encoding="utf-8"))


def check_none_is_lost_and_none_twice(
    terminal: Terminal,
    night: dict[str, Any],
    report: dict[str, Any],
    cards: Cards,
    models: Models,
    attempts: Counter[str],
) -> None:
    """`attempts` says how often each card that began is to be done."""
    groups = {line["card"]: line["group"] for line in report["lines"]}
    assert groups == cards.whole | dict.fromkeys(cards.broken, "broken")
    assert len(report["lines"]) == len(groups), "a card stands there twice"
    assert models.done == attempts, "a card was done twice, or not at all"
    children = [
        json.loads(line)
        for line in (terminal.home / "nights" / night["night_id"] / "children.jsonl").read_text().splitlines()
    ]
    ids = [child["delegation_id"] for child in children]
    assert len(ids) == len(set(ids)) == attempts.total()
    assert set(ids) == set(receipts(terminal, night["night_id"]))
    with api(terminal) as server:
        run = f"/flow_runs/{night['flow_run_id']}"
        until(lambda: server.get(run).json()["state_type"] == "COMPLETED", 60)
        assert server.get(run).json()["run_count"] == 2, "it was not killed, or not taken up again"
        made = server.post("/flow_runs/filter", json={"flow_runs": {"tags": {"all_": [night["night_id"]]}}}).json()
        assert len(made) == attempts.total() + 1


def test_twelve_cards_three_of_them_broken_come_through_faults_and_a_kill(stack: Terminal, tmp_path: Path):
    cards = Cards(tmp_path / "cards", shop(tmp_path / "shop", 12))
    cards.folder.mkdir()
    cards.markdown("invoice", saved="utf-8-sig", priority=5)
    cards.markdown("discount", ends="\r\n", depends_on=["invoice"])
    cards.markdown("basket", saved="utf-16", tags=["soon"])
    cards.listed("more.yaml", "customs", "currency")
    cards.listed("jobs.jsonl", "stock", "shipping")
    cards.listed("last.json", "refund", "tax")
    cards.wrong("crash.yaml", "task: Fix: crash\n", "crash")
    cards.wrong("open.md", "---\nrepo: .\nFix it\n", "open")
    cards.wrong("typo.md", f"---\nrepo: {cards.repo}\nmodle: x\n---\nFix it\n", "typo")
    gate = threading.Event()
    models = Models(gate=gate)
    with ScriptedEndpoint(models) as endpoint:
        night = stack("night", str(cards.folder), "--json", "--in-flight", "6", env=local_model(endpoint.base_url)).json
        process = flow_process(stack, night["flow_run_id"])
        until(lambda: models.done.total() >= 2)
        os.kill(process, signal.SIGKILL)
        gate.set()
        report = reported(stack, night, 200)

    check_none_is_lost_and_none_twice(stack, night, report, cards, models, Counter(list(cards.whole)))
    assert models.faults, "no fault was met"


@pytest.mark.slow
def test_sixty_cards_twelve_of_them_broken_or_odd_come_through_a_bad_line_and_a_kill(
    terminal: Terminal, tmp_path: Path, pytestconfig: pytest.Config
):
    cards = Cards(tmp_path / "cards", shop(tmp_path / "shop", len(MODULES)))
    cards.folder.mkdir()
    attempts = sixty(cards)
    models = Models()
    with ScriptedEndpoint(models) as endpoint:
        env = local_model(endpoint.base_url)
        plan = terminal("cards", str(cards.folder), "--json", env=env)
        assert (plan.code, len(plan.json["pools"])) == (2, 3)
        night = terminal("night", str(cards.folder), "--json", "--in-flight", "12", env=env).json
        killed_in_the_middle(terminal, night, 15)
        report = reported(terminal, night, 600)

    assert len(report["lines"]) == 60
    check_none_is_lost_and_none_twice(terminal, night, report, cards, models, attempts)
    lines = {line["card"]: line for line in report["lines"]}
    tried = {each["outcome"] + ("!" if each["chosen"] else ""): each["size"] for each in lines["bonus"]["tried"]}
    assert sorted(tried) == ["refuted", "verified", "verified!"]
    assert tried["verified!"] == "1 file, +1 -1", "of the right ones the smaller is chosen"
    base = git(cards.repo, "rev-parse", lines["pension"]["commands"]["drop"].split()[-1] + "~1")
    assert base == git(cards.repo, "rev-parse", lines["holiday"]["commands"]["drop"].split()[-1])
    assert lines["overtime"]["reason"] == "It did not begin: it depends on 'rent', which ended as refuted."
    assert set(models.faults) == {"429", "503", "cut", "cut_before_end", "529"}
    folder = terminal.home / "nights" / night["night_id"]
    _FIGURES.info("faults %s\n%s", dict(models.faults), (folder / "report.md").read_text(encoding="utf-8"))
    places = {
        str(cards.folder): "/home/me/cards",
        str(cards.repo): "/home/me/shop",
        endpoint.base_url.removesuffix("/v1"): MODELS_AT,
    }
    page = page_of((folder / "report.json").read_text(encoding="utf-8"), places, models.faults)
    if pytestconfig.getoption("--write-examples"):
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
    assert sections(PAGE.read_text(encoding="utf-8")) == sections(page), "write it anew with --write-examples"


def sixty(cards: Cards) -> Counter[str]:
    """48 that are whole, and 12 that are not; how often each is to be done."""
    rest = [name for name in MODULES if name not in _SPECIAL]
    cards.markdown("holiday", priority=9)
    cards.markdown("pension", depends_on=["holiday"], build_on=True)
    cards.markdown("bonus", attempts=3, review_by="2026-12-01")
    cards.markdown("rent")
    cards.markdown("overtime", depends_on=["rent"])
    cards.markdown("heating")
    cards.markdown("power")
    cards.whole |= {"rent": "refuted", "overtime": "passed_over", "heating": "failed", "power": "no_change"}
    for place, name in enumerate(rest[:16]):
        saved, ends = ("utf-8", "utf-8-sig", "utf-16", "utf-8")[place % 4], ("\n", "\n", "\r\n", "\r\n")[place % 4]
        wants = [rest[place - 4]] if place >= 12 else []
        cards.markdown(name, saved=saved, ends=ends, depends_on=wants, tags=["sums"])
    cards.listed("week.yaml", *rest[16:24])
    cards.listed("stock.json", *rest[24:30])
    cards.listed("late.jsonl", *rest[30:])
    questions = [json.dumps({"name": f"ask-{n}", "prompt": "card-question: why?"}) for n in range(6)]
    (cards.folder / "questions.jsonl").write_text("\n".join(questions), encoding="utf-8")
    cards.whole |= {f"ask-{n}": "answered" for n in range(6)}
    attempts = Counter([name for name in cards.whole if not name.startswith("ask-")])
    attempts.update({"bonus": 2, "question": 6})
    del attempts["overtime"]
    _write_broken(cards)
    assert (len(cards.whole), len(cards.broken)) == (48, 12)
    return attempts


_SPECIAL = ("holiday", "pension", "bonus", "rent", "overtime", "heating", "power")


def _write_broken(cards: Cards) -> None:
    good = {"repo": str(cards.repo), "task": "Fix it"}
    cards.wrong("crash.yaml", "task: Fix: crash\n", "crash")
    cards.wrong("open.md", "---\nrepo: .\nFix it\n", "open")
    cards.wrong("typo.md", f"---\nrepo: {cards.repo}\nmodle: x\n---\nFix it\n", "typo")
    cards.wrong("cut.json", '{"repo": ".", "task": "Fi', "cut")
    cards.wrong("noise.jsonl", "not a card\n", "noise-1")
    cards.wrong("latin.md", b"---\nrepo: .\n---\nGr\xfc\xdfe\n", "latin")
    cards.wrong("nobody.json", json.dumps({**good, "id": "nobody", "depends_on": ["nosuch"]}), "nobody")
    cards.wrong("twice.yaml", json.dumps([{**good, "id": "Twice"}, {**good, "id": "twice"}]), "Twice", "twice")
    cards.wrong(
        "circle.json",
        json.dumps([{**good, "id": "hen", "depends_on": ["egg"]}, {**good, "id": "egg", "depends_on": ["hen"]}]),
        "hen",
        "egg",
    )
    cards.wrong("empty.md", f"---\nrepo: {cards.repo}\n---\n", "empty")


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True, check=True).stdout.strip()
