"""A night that ends early on the real stack: at its hour, and at its budget. What runs is finished cleanly."""

import json
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, local_model
from tests.flows.small_night import until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(600)]
PRICE = 0.25


class Models:
    """Each delegation costs 50 cents; `go_on` holds its second reply back."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun: Counter[str] = Counter()
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Turn:
        if request.turn:
            self.go_on.wait(200)
            return Turn(text="Done.", cost_usd=PRICE)
        with self.lock:
            self.begun[json.dumps(request.body).split("card-")[1].split(":")[0]] += 1
        return Turn(
            calls=(Call("edit_file", {"path": "adding.py", "old_text": "a - b", "new_text": "a + b"}),), cost_usd=PRICE
        )


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture
def cards(tmp_path: Path, small_repository: Path) -> Path:
    folder = tmp_path / "cards"
    folder.mkdir()
    for number in range(8):
        text = f"---\nrepo: {small_repository}\nverify: python -m pytest -q\n---\ncard-{number}: mend add()\n"
        (folder / f"c{number}.md").write_text(text, encoding="utf-8")
    return folder


def groups(report: dict[str, Any]) -> Counter[str]:
    return Counter(line["group"] for line in report["lines"])


def test_at_its_hour_nothing_more_begins_and_what_an_agent_works_on_ends_with_its_verdict(
    stack: Terminal, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    ends = (datetime.now(UTC) + timedelta(seconds=100)).replace(second=0, microsecond=0)
    words = ("--until", f"{ends:%H:%M}", "--time-zone", "UTC", "--in-flight", "3", "--json")
    night = stack("night", str(cards), *words, env=local_model(endpoint.base_url)).json
    until(lambda: models.begun.total() == 3)
    assert datetime.now(UTC) < ends, "this machine was too slow for the test"
    second = stack("night", str(cards), "--wait", env=local_model(endpoint.base_url))
    assert (second.code, "still works on these cards" in second.stderr) == (1, True), second.stderr
    until(lambda: datetime.now(UTC) > ends + timedelta(seconds=3), 130)
    models.go_on.set()
    report = stack("night", "--show", night["night_id"], "--wait", "--json", timeout=200).json

    assert report["stopped"] == "Its time was over."
    assert groups(report) == {"verified": 3, "passed_over": 5}
    assert models.begun.total() == 3
    waiting = [line["reason"] for line in report["lines"] if line["group"] == "passed_over"]
    assert set(waiting) == {f"It did not begin: the night ended at {ends:%Y-%m-%d %H:%M} UTC before it began."}
    assert datetime.fromisoformat(report["ended"]) > ends


def test_at_its_budget_nothing_more_begins_and_no_more_is_spent_than_was_given(
    stack: Terminal, cards: Path, endpoint: ScriptedEndpoint, models: Models
):
    models.go_on.set()
    words = ("--budget", "1.2", "--in-flight", "1", "--wait", "--json")
    report = stack("night", str(cards), *words, env=local_model(endpoint.base_url), timeout=400).json

    assert report["stopped"] == "Its budget was used up." or groups(report)["failed"], report
    assert report["costs"]["reported_usd"] == pytest.approx(report["spent_usd"])
    assert 1.0 <= report["spent_usd"] <= 1.2 + PRICE
    assert groups(report)["verified"] == 2
    assert groups(report)["passed_over"] + groups(report)["failed"] == 6
