"""Keys go when no delegation that can still be tried refers to them, whatever the records around look like."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.home import Home
from delegation.ids import new_id
from delegation.kept_keys import DAY_SECONDS, clear_keys
from delegation.records import Progress, Step
from delegation.secrets import keep


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "h", config_file=tmp_path / "c")


def stored(home: Home, value: str, *, owner: str | None = None) -> str:
    """A key that was kept two days ago."""
    reference = keep(home, value, owner=owner)
    old = time.time() - 2 * DAY_SECONDS
    os.utime(home.secrets / reference.removeprefix("secret:"), (old, old))
    return reference


def record(home: Home, reference: str, outcome: str | None = None, *, days_ago: float = 0) -> Path:
    """A record that refers to a key; without an outcome its delegation goes on."""
    folder = home.make(home.delegations / new_id("dg"))
    request = {"endpoint": {"key_ref": None}, "chain": [{"key_ref": reference}], "environment_refs": {}}
    (folder / "request.json").write_text(json.dumps(request, indent=1))
    if outcome:
        (folder / "receipt.json").write_text(json.dumps({"outcome": outcome}))
        ended = time.time() - days_ago * DAY_SECONDS
        os.utime(folder / "receipt.json", (ended, ended))
    return folder


def left(home: Home) -> set[str]:
    return {f"secret:{path.name}" for path in home.secrets.iterdir()}


def test_a_key_stays_while_a_delegation_goes_on_or_failed_lately(home: Home):
    going_on, failed, cancelled = (stored(home, value) for value in "abc")
    record(home, going_on)
    record(home, failed, "failed", days_ago=6)
    record(home, cancelled, "cancelled", days_ago=6)
    assert clear_keys(home, keep_days=7) == 0
    assert left(home) == {going_on, failed, cancelled}


def test_a_key_goes_when_all_that_refer_to_it_are_over(home: Home):
    done, failed_long_ago, shared, unknown = (stored(home, value) for value in "abcd")
    for outcome in ("verified", "refuted", "unverified", "no_change", "answered"):
        record(home, done, outcome)
    record(home, failed_long_ago, "failed", days_ago=8)
    record(home, shared, "verified")
    record(home, shared)
    assert clear_keys(home, keep_days=7) == 3
    assert left(home) == {shared}
    assert unknown not in left(home)


def test_a_key_of_one_failed_delegation_alone_stays_a_day(home: Home):
    today, before = stored(home, "a", owner="x"), stored(home, "b", owner="y")
    record(home, today, "failed", days_ago=0.5)
    record(home, before, "failed", days_ago=1.5)
    clear_keys(home, keep_days=7)
    assert left(home) == {today}


@pytest.mark.parametrize(
    ("step", "minutes_later", "stays"), [("agent", 10, True), ("agent", -10, False), ("done", 10, False)]
)
def test_a_key_of_one_that_failed_long_ago_stays_while_it_is_done_again(
    home: Home, step: Step, minutes_later: float, stays: bool
):
    """What says that it goes on is newer than its receipt."""
    mine, ended_at = stored(home, "a", owner="x"), datetime.now(UTC) - timedelta(days=9)
    folder = record(home, mine, "failed", days_ago=9)
    moment = ended_at + timedelta(minutes=minutes_later)
    (folder / "status.json").write_text(Progress(step=step, updated_at=moment).model_dump_json())
    os.utime(folder / "status.json", (moment.timestamp(), moment.timestamp()))
    clear_keys(home, keep_days=7)
    assert left(home) == ({mine} if stays else set())


def test_a_key_that_was_just_given_stays_before_any_record_names_it(home: Home):
    assert clear_keys(home, keep_days=7) == 0
    keep(home, "a")
    assert clear_keys(home, keep_days=7) == 0
    assert len(left(home)) == 1


@pytest.mark.parametrize("damage", ["", "{", "\0" * 100, "[]", '{"outcome": ["failed"]}'])
def test_a_damaged_record_neither_stops_the_sweep_nor_loses_a_key_of_others(home: Home, damage: str):
    wanted, unused, half = (stored(home, value) for value in "abc")
    record(home, wanted)
    (record(home, unused, "verified") / "request.json").write_text(damage)
    (record(home, half, "failed") / "receipt.json").write_text(damage)
    torn = record(home, half) / "request.json"
    torn.write_text(torn.read_text()[:-20])
    assert clear_keys(home, keep_days=7) == 1
    assert left(home) == {wanted, half}


def test_where_the_disk_does_not_answer_nothing_is_removed(home: Home):
    stored(home, "a")
    folder = record(home, stored(home, "b"))
    (folder / "request.json").unlink()
    (folder / "request.json").mkdir()  # reading it is an error, and not the one that says there is none
    with pytest.raises(OSError, match=r"request\.json"):
        clear_keys(home, keep_days=7)
    assert len(left(home)) == 2
