"""The places of delegations that wait in a queue, as every reader of records finds them."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delegation.card import Card
from delegation.home import Home
from delegation.ids import new_id
from delegation.records import Progress, RecordStore
from delegation.request import DelegationRequest
from deployments.upkeep.queue_lines import QueueLines

BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def records(delegate_home: Any) -> RecordStore:
    home = Home(delegate_home, delegate_home / "config" / "delegate.toml")
    home.make(home.stack)
    return RecordStore(home)


@pytest.fixture
def submit(records: RecordStore, a_request: Callable[..., DelegationRequest]) -> Callable[..., str]:
    def one(after_seconds: int, *, bucket: str = "b", queue: str = "now", step: str = "submitted") -> str:
        made = a_request(new_id("dg"))
        request = made.model_copy(
            update={
                "endpoint": made.endpoint.model_copy(update={"bucket": bucket}),
                "card": Card(task="Do it", repo="/r", queue=queue),  # pyright: ignore[reportArgumentType]
                "created_at": BEGAN + timedelta(seconds=after_seconds),
            }
        )
        records.create(request, None)
        if step != "submitted":
            records.write_status(request.id, Progress(step=step))  # pyright: ignore[reportArgumentType]
        return request.id

    return one


def places(records: RecordStore, *names: str) -> list[int | None]:
    return [status.queue_position if (status := records.status(name)) else None for name in names]


def test_each_bucket_has_a_line_of_its_own_now_before_night_then_by_age(
    records: RecordStore, submit: Callable[..., str]
):
    night, late, early = submit(0, queue="night"), submit(9), submit(5)
    other = submit(7, bucket="c")
    QueueLines(records.home).refresh()
    assert places(records, early, late, night, other) == [1, 2, 3, 1]
    status = records.status(late)
    assert status is not None
    assert (status.queue_reason, status.detail) == ("bucket_full", "number 2 in the queue of 'b'")


def test_those_at_the_gate_are_before_those_in_the_queue_and_tell_their_own_place(
    records: RecordStore, submit: Callable[..., str]
):
    gate, queued = submit(50, step="waiting"), submit(1)
    QueueLines(records.home).refresh()
    assert places(records, gate, queued) == [None, 2]


def test_what_began_or_ended_or_is_parked_stands_in_no_line(records: RecordStore, submit: Callable[..., str]):
    began, ended, parked, queued = submit(0, step="prepare"), submit(1, step="done"), submit(2), submit(3)
    records.write_status(parked, Progress(step="waiting", parked_until=BEGAN))
    QueueLines(records.home).refresh()
    assert places(records, began, ended, parked, queued) == [None, None, None, 1]


def test_a_place_is_forgotten_as_soon_as_the_delegation_begins(records: RecordStore, submit: Callable[..., str]):
    first, second = submit(0), submit(1)
    lines = QueueLines(records.home)
    lines.refresh()
    records.write_status(first, Progress(step="prepare"))
    assert places(records, first, second) == [None, 2]
    lines.refresh()
    assert places(records, first, second) == [None, 1]


def test_places_that_nobody_renews_are_not_believed(records: RecordStore, submit: Callable[..., str]):
    waiting = submit(0)
    QueueLines(records.home).refresh()
    file = records.home.stack / "queue.json"
    os.utime(file, (time.time() - 600, time.time() - 600))
    assert places(records, waiting) == [None]
    file.write_text("{torn")
    assert places(records, waiting) == [None]


def test_a_damaged_record_is_in_nobodys_way(records: RecordStore, submit: Callable[..., str]):
    damaged, whole = submit(0), submit(1)
    (records.folder(damaged) / "request.json").write_text("{")
    QueueLines(records.home).refresh()
    assert places(records, damaged, whole) == [None, 1]


def test_a_record_that_has_not_changed_is_not_read_again(
    records: RecordStore, submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    submit(0, step="done")
    lines = QueueLines(records.home)
    lines.refresh()

    def read(*_: object) -> None:
        pytest.fail("read again")

    monkeypatch.setattr(RecordStore, "status", read)
    lines.refresh()
