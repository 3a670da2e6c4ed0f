"""Records on disk: what is written is read back, and nothing is overwritten."""

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from delegation.errors import NotFoundError, StackError, UsageError
from delegation.home import Home
from delegation.ids import new_id
from delegation.receipt import Cost, Receipt
from delegation.records import RecordStore
from delegation.records.store import title_of
from delegation.request import DelegationRequest

CREATED = datetime(2026, 11, 30, tzinfo=UTC)
MakeRequest = Callable[[str], DelegationRequest]


def a_receipt(delegation_id: str, answer: str) -> Receipt:
    return Receipt(
        id=delegation_id,
        outcome="answered",
        expects="answer",
        agent="coder",
        agent_source="built-in",
        model_requested=None,
        model_used="m",
        bucket="m",
        lane="local",
        repo="/r",
        base_commit=None,
        answer=answer,
        cost=Cost(amount_usd=None, kind="unknown"),
        created_at=CREATED,
    )


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    return RecordStore(Home(root=tmp_path / "home", config_file=tmp_path / "c.toml"))


def test_a_request_is_read_back_as_it_was_written(store: RecordStore, a_request: MakeRequest):
    request = a_request(new_id("dg"))
    entry = store.create(request, number=7)
    assert store.request(request.id) == request
    assert store.entry(request.id) == entry
    assert entry.title == "Fix the bug"
    status = store.status(request.id)
    assert status is not None
    assert status.step == "submitted"


def test_a_record_that_cannot_be_written_whole_is_told_and_nothing_of_it_is_left(
    store: RecordStore, a_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    request = a_request(new_id("dg"))
    with pytest.raises(StackError, match=rf"no space left to write '.*/{request.id}': free some"):
        store.create(request, number=None)
    assert store.ids() == []


def test_ids_come_newest_first_across_kinds(store: RecordStore, a_request: MakeRequest):
    ids = [f"{kind}-20261130t1136524{n:02d}-aaaa" for n, kind in enumerate(["dg", "rd", "cx"])]
    for name in ids:
        store.create(a_request(name), number=None)
    assert store.ids() == ids[::-1]


def test_an_earlier_receipt_is_kept_beside_the_new_one(store: RecordStore, a_request: MakeRequest):
    name = new_id("dg")
    store.create(a_request(name), number=1)
    for answer in ("one", "two", "three"):
        store.write_receipt(a_receipt(name, answer))
    kept = [store.folder(name) / f"receipt.{number}.json" for number in (1, 2)]
    assert [Receipt.model_validate_json(file.read_text()).answer for file in kept] == ["one", "two"]
    current = store.receipt(name)
    assert current is not None
    assert current.answer == "three"


def test_a_delegation_is_found_by_id_prefix_ending_and_number(store: RecordStore, a_request: MakeRequest):
    first, second = "dg-20261130t113652417-k7x2", "dg-20261130t113652418-m3p9"
    store.create(a_request(first), number=1)
    store.create(a_request(second), number=2)
    assert [store.resolve(text) for text in (first, first[:-1], "k7x2", "2")] == [first, first, first, second]
    digits = "dg-20261130t113652419-0042"
    store.create(a_request(digits), number=3)
    assert store.resolve("0042") == digits
    with pytest.raises(UsageError, match="fits 3 delegations"):
        store.resolve("dg-2026")
    with pytest.raises(NotFoundError, match="no delegation '77'"):
        store.resolve("77")


@pytest.mark.parametrize("text", ["2", "x2", "7x2"])
def test_an_ending_of_fewer_than_four_characters_names_nothing(store: RecordStore, a_request: MakeRequest, text: str):
    """One letter that was meant for something else would start, apply or cancel it."""
    store.create(a_request("dg-20261130t113652417-k7x2"), number=1)
    with pytest.raises(NotFoundError, match=f"no delegation '{text}'.* an ending of one needs 4 characters"):
        store.resolve(text)
    assert store.resolve("dg-2") == "dg-20261130t113652417-k7x2"


@pytest.mark.parametrize("text", ["../x", "dg-1/../..", "", "dg-20261130t113652417-k7x2/x"])
def test_a_text_that_is_no_id_never_becomes_a_path(store: RecordStore, text: str):
    with pytest.raises(UsageError, match="not a delegation id"):
        store.folder(text)


def test_a_broken_record_is_listed_with_its_problem(store: RecordStore, a_request: MakeRequest):
    name = new_id("dg")
    store.create(a_request(name), number=1)
    (store.folder(name) / "entry.json").write_text("{")
    (summary,) = store.summaries()
    assert summary.id == name
    assert summary.entry is None
    assert summary.problem


def test_a_home_below_a_file_is_one_clear_error(tmp_path: Path, a_request: MakeRequest):
    (tmp_path / "file").write_text("")
    store = RecordStore(Home(root=tmp_path / "file" / "home", config_file=tmp_path / "c"))
    with pytest.raises(StackError, match="set DELEGATE_HOME"):
        store.create(a_request(new_id("dg")), number=None)


def test_folders_are_private(store: RecordStore, a_request: MakeRequest):
    name = new_id("dg")
    store.create(a_request(name), number=1)
    assert {oct(p.stat().st_mode & 0o777) for p in (store.folder(name), store.folder(name).parent)} == {"0o700"}
    assert oct((store.folder(name) / "request.json").stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize(
    ("task", "title"),
    [("Fix it", "Fix it"), ("\n\n## Do that \n more", "Do that"), ("---\n- item", "item"), ("x" * 100, "x" * 71 + "…")],
)
def test_title_is_the_first_line_that_says_something(task: str, title: str):
    assert title_of(task) == title
