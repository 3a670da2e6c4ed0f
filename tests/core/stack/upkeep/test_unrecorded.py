"""What ended without a receipt gets one from the keeper, so that no list says for ever that it goes on."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from past import PastRecords

from delegation.records import Progress
from delegation.records.standing import ended
from deployments.upkeep.unrecorded import UnrecordedEnds

NOW = datetime.now(UTC)


class Rest:
    """A server with runs that have ended, and what it was told."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.tags: dict[str, list[str]] = {}

    def add(self, run_id: str, request_id: str | None, kind: str, *, seconds_ago: float = 20) -> None:
        end = (NOW - timedelta(seconds=seconds_ago)).isoformat()
        state = {"type": kind, "name": kind.capitalize(), "message": "UsageError: the repository is gone"}
        parameters = {"request": {"id": request_id}} if request_id else {}
        self.runs.append(
            {"id": run_id, "parameters": parameters, "state": state, "end_time": end, "tags": ["repo:r", "outcome:old"]}
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        assert method == "PATCH"
        self.tags[path.rpartition("/")[2]] = body["tags"]


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home")


@pytest.fixture
def written() -> list[tuple[str, str]]:
    return []


def close(past: PastRecords, rest: Rest, written: list[tuple[str, str]]) -> None:
    def write(parameters: dict[str, Any], state: dict[str, Any]) -> None:
        written.append((parameters["request"]["id"], state["type"]))

    ends = UnrecordedEnds(rest, past.home, write, lambda _: None)  # pyright: ignore[reportArgumentType]
    for run in rest.runs:
        ends.close(run)


def begun_again(past: PastRecords, *, seconds_ago: float) -> str:
    """Verified an hour ago, and taken up again."""
    name = past.add("verified")
    moment = NOW - timedelta(seconds=seconds_ago)
    past.store.write_status(name, Progress(step="prepare", updated_at=moment))
    return name


def test_runs_that_ended_without_a_receipt_get_one_and_others_are_left_alone(
    past: PastRecords, written: list[tuple[str, str]]
):
    rest, parked, failed = Rest(), past.add(None), past.add(None)
    rest.add("parked", parked, "CANCELLED")
    rest.add("failed", failed, "FAILED")
    rest.add("done", past.add("failed"), "FAILED")
    rest.add("foreign", "dg-20261130t113652417-k7x2", "CANCELLED")
    rest.add("bare", None, "FAILED")
    rest.add("odd", "../x", "FAILED")
    for number, request in enumerate(("fix the tests please", ["x"], 5, {"id": 5})):
        rest.add(f"by hand {number}", None, "FAILED")
        rest.runs[-1]["parameters"] = {"request": request}
    torn = past.add("verified")
    (past.store.folder(torn) / "receipt.json").write_text("{torn")
    rest.add("torn", torn, "FAILED")
    rest.add("just now", past.add(None), "FAILED", seconds_ago=-600)  # whoever ends it writes first
    close(past, rest, written)
    assert written == [(parked, "CANCELLED"), (failed, "FAILED")]


def test_one_that_was_done_again_and_ended_without_a_new_receipt_is_closed(
    past: PastRecords, written: list[tuple[str, str]]
):
    rest, again = Rest(), begun_again(past, seconds_ago=40)
    rest.add("again", again, "FAILED", seconds_ago=20)
    close(past, rest, written)
    assert written == [(again, "FAILED")]
    assert rest.tags == {"again": ["outcome:verified", "repo:r"]}, "that of the newest receipt"


def test_one_that_is_about_to_be_done_again_is_not(past: PastRecords, written: list[tuple[str, str]]):
    """Its run still stands where it ended, while somebody has said in its record that it goes on."""
    rest = Rest()
    rest.add("soon", begun_again(past, seconds_ago=5), "CANCELLED", seconds_ago=20)
    close(past, rest, written)
    assert written == []


@pytest.mark.parametrize(
    ("words", "outcome", "kind", "said"),
    [
        (["it died twice"], "failed", "lost", "it died twice"),
        (["CANCELLED", "Cancelled", ""], "cancelled", None, None),
        (["FAILED", "Failed", "UsageError: no base"], "failed", "process", "its flow run ended as 'Failed' without a "
         "receipt: UsageError: no base"),
    ],
)  # fmt: skip
def test_the_receipt_says_how_it_ended_and_the_earlier_one_stays_beside_it(
    past: PastRecords, words: list[str], outcome: str, kind: str | None, said: str | None
):
    name = begun_again(past, seconds_ago=40)
    request = past.store.request(name).model_dump_json()
    done = subprocess.run(
        [sys.executable, "-m", "deployments.upkeep.lost", *words], input=request, text=True, capture_output=True,
        env={"DELEGATE_HOME": str(past.root), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[4])},
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    receipt = past.store.receipt(name)
    assert receipt is not None
    assert (receipt.outcome, receipt.failure_kind, receipt.failure_message) == (outcome, kind, said)
    assert ended(receipt, past.store.status(name)) == receipt
    earlier = json.loads((past.store.folder(name) / "receipt.1.json").read_text(encoding="utf-8"))
    assert earlier["outcome"] == "verified"
