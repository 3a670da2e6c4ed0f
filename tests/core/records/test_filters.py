"""Which delegations a list, a count or an export takes, and that a damaged record never hides."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from past import REPO, PastRecords

from delegation.errors import UsageError
from delegation.records import RecordStore
from delegation.records.filters import Filter, filter_of, found, moment
from delegation.records.history import Read, moment_of
from delegation.records.index import History
from delegation.records.statistics import statistics_of

NOW = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
Fitting = Callable[..., list[str]]


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home")


@pytest.fixture
def fitting(past: PastRecords, tmp_path: Path) -> Fitting:
    """The ids that fit a person's words."""

    def fit(**words: Any) -> list[str]:
        wanted = filter_of(cwd=tmp_path, **words)
        return [row.id for row in found(History(past.home), wanted, past.store.ids())]

    return fit


def test_every_filter_takes_what_fits_and_nothing_else(past: PastRecords, fitting: Fitting):
    plain = past.add("verified")
    words: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"repo": "/elsewhere/other"}, {"repo": "other"}),
        ({"model": "glm-5.2"}, {"model": "glm*"}),
        ({"agent": "reviewer"}, {"agent": "reviewer"}),
        ({"lane": "flat_plan"}, {"lane": "flat_plan"}),
        ({"bucket": "qwen"}, {"tag": "bucket:qwen"}),
        ({"parent_id": plain}, {"parent_id": plain}),
        ({"night_id": "night-20261130-x"}, {"night": "night-20261130-x"}),
        ({"task": "Straighten the ÄRGER out"}, {"text": "ärger"}),
        ({"answer": "It is 42, exactly"}, {"text": "42, EX"}),
        ({"claim": "I replaced the parser"}, {"text": "replaced the"}),
    ]
    for facts, asked in words:
        special = past.add("verified", **facts)
        assert fitting(**asked) == [special], asked
    assert fitting(night="20261130-x") == fitting(night="night-20261130-x") != []
    assert fitting(tag="outcome:verified") == past.store.ids()
    assert fitting(model="glm*", text="42") == [], "all that is given must hold"


def test_outcomes_are_one_of_several_and_unfinished_is_what_goes_on(past: PastRecords, fitting: Fitting):
    refuted, failed = past.add("refuted"), past.add("failed", failure_kind="auth")
    works, no_change = past.add(None), past.add("no_change")
    assert fitting(outcome=["refuted,failed"]) == sorted((refuted, failed), reverse=True)
    assert fitting(outcome="no-change") == [no_change]
    assert fitting(outcome="unfinished") == [works]
    with pytest.raises(UsageError, match="there is no outcome 'green': it is one of verified"):
        filter_of(outcome="green", cwd=Path("/"))


def test_a_repository_is_meant_by_path_by_a_folder_inside_it_or_by_its_name(
    past: PastRecords, fitting: Fitting, tmp_path: Path
):
    here = tmp_path / "project"
    (here / "src").mkdir(parents=True)
    ours = past.add("verified", repo=str(here))
    past.add("verified")
    assert fitting(repo=str(here)) == fitting(repo="project/src") == fitting(repo="project") == [ours]
    assert fitting(repo=str(tmp_path)) == [], "a folder around it is not it"
    assert len(fitting(repo=REPO)) == 1


def test_a_name_that_no_folder_here_has_is_a_repositorys_name_and_no_path(
    past: PastRecords, tmp_path: Path, fitting: Fitting
):
    past.add("verified", repo=str(tmp_path))  # the current folder's repository
    other = past.add("verified", repo="/elsewhere/other")
    assert fitting(repo="nope") == []
    assert fitting(repo="other") == [other]


@pytest.mark.parametrize("word", ["~nobody-of-that-name/x", "a\0b"])
def test_a_repository_that_is_no_path_is_refused(fitting: Fitting, word: str):
    with pytest.raises(UsageError, match=r"--repo .* is no path"):
        fitting(repo=word)


def test_since_and_until_bound_by_the_time_of_submission(past: PastRecords, fitting: Fitting):
    old, middle, new = (past.add("verified", ago=timedelta(hours=hours)) for hours in (50, 20, 1))
    assert fitting(since="2h") == [new]
    assert fitting(since="1d") == [new, middle]
    assert fitting(until="2h") == [middle, old]
    assert fitting(since="3d", until="1d") == [old]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90min", NOW - timedelta(minutes=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("1.5 d", NOW - timedelta(days=1.5)),
        ("1W", NOW - timedelta(weeks=1)),
        ("2026-11-30T10:30:00+02:00", datetime(2026, 11, 30, 8, 30, tzinfo=UTC)),
        ("2026-11-30T10:30Z", datetime(2026, 11, 30, 10, 30, tzinfo=UTC)),
        ("2026-11-28", datetime(2026, 11, 28).astimezone()),
        ("yesterday", datetime(2026, 11, 29).astimezone()),
        ("99999999999999d", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_a_time_is_so_long_ago_or_a_date(text: str, expected: datetime):
    assert moment(text, NOW, "--since") == expected


def test_a_day_as_an_end_counts_whole():
    assert moment("2026-11-28", NOW, "--until", is_end=True) == datetime(2026, 11, 29).astimezone()
    assert moment("2026-11-28T10:00Z", NOW, "--until", is_end=True) == datetime(2026, 11, 28, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "-3d", "3x", "h"])
def test_what_is_no_time_is_refused_with_the_option(text: str):
    with pytest.raises(UsageError, match=r"--since .* is no time: give how long ago"):
        moment(text, NOW, "--since")


@pytest.mark.parametrize("file", ["entry.json", "receipt.json"])
def test_a_damaged_record_is_named_under_every_filter_that_nothing_readable_contradicts(
    past: PastRecords, fitting: Fitting, file: str
):
    damaged, whole = past.add("verified", model="glm"), past.add("verified", model="glm")
    (past.store.folder(damaged) / file).write_text('{"torn', encoding="utf-8")
    both = sorted((damaged, whole), reverse=True)
    assert fitting(outcome="verified") == fitting(model="glm") == fitting(text="median") == both
    assert fitting(model="qwen") == [], "its request says another model"
    rows = {row.id: row for row in found(History(past.home), Filter(), past.store.ids())}
    assert (rows[damaged].state, rows[damaged].outcome) == ("unreadable", None)
    assert file in str(rows[damaged].problem)
    assert fitting(outcome="unreadable") == [damaged]


def test_a_record_of_which_nothing_can_be_read_is_in_every_list_of_its_time(past: PastRecords, fitting: Fitting):
    name = past.add("verified", ago=timedelta(hours=3))
    for path in past.store.folder(name).iterdir():
        path.write_bytes(b"\xff\0 nothing")
    assert fitting(model="glm", lane="local", text="x", night="n", tag="t") == [name]
    assert fitting(since="1h") == []


def test_the_id_tells_the_time_of_submission():
    assert moment_of("cx-20261130t113652417-k7x2") == datetime(2026, 11, 30, 11, 36, 52, 417_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["dg-20261399t113652417-k7x2", "dg-20260230t113652417-k7x2", "dg-00001130t996652417-k7x2"]
)
def test_an_id_that_names_no_time_is_told_and_its_folder_is_listed_as_damaged_at_every_time(
    past: PastRecords, fitting: Fitting, name: str
):
    with pytest.raises(UsageError, match=f"the id '{name}' names no time that there is .* move it elsewhere"):
        moment_of(name)
    good = past.add("verified", ago=timedelta(hours=3))
    past.store.folder(name).mkdir()
    assert sorted(fitting(since="4h")) == sorted([name, good])
    assert fitting(since="1h") == [name]
    (row,) = [row for row in History(past.home).rows() if row.id == name]
    assert (row.state, row.created_at) == ("unreadable", None)
    assert statistics_of([row], ["day"]).unreadable == 1


# --- what is remembered -----------------------------------------------------------------------------------------------


def test_a_row_is_read_once_and_again_when_any_of_its_files_changed(past: PastRecords, monkeypatch: pytest.MonkeyPatch):
    from delegation.records import index

    reads: list[str] = []
    really = index.read

    def counting(store: RecordStore, name: str) -> Read:
        reads.append(name)
        return really(store, name)

    monkeypatch.setattr(index, "read", counting)
    names = [past.add("verified"), past.add("verified")]
    past.aged()
    history = History(past.home)
    assert len(list(history.rows())) == len(list(history.rows())) == 2
    assert sorted(reads) == sorted(names)
    receipt = past.store.receipt(names[0])
    assert receipt is not None
    past.store.write_receipt(receipt.model_copy(update={"outcome": "refuted"}))
    assert {row.id: row.outcome for row in history.rows()} == {names[0]: "refuted", names[1]: "verified"}
    assert reads[2:] == [names[0]]


def test_a_file_damaged_without_a_change_of_its_size_is_seen(past: PastRecords):
    name = past.add("verified")
    past.aged()
    history = History(past.home)
    assert [row.problem for row in history.rows()] == [None]
    path = past.store.folder(name) / "receipt.json"
    path.write_bytes(b"x" * path.stat().st_size)
    assert [row.state for row in history.rows()] == ["unreadable"]


def test_what_changed_a_moment_ago_is_not_remembered(past: PastRecords):
    past.add("verified")
    list(History(past.home).rows())
    path = past.store.folder(past.store.ids()[0]) / "receipt.json"
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"verified"', b'"refuted" '))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # a clock too coarse to tell the two apart
    assert [row.outcome for row in History(past.home).rows()] == ["refuted"]


@pytest.mark.parametrize("content", [b"", b"no database at all, and long enough to be taken for one" * 30])
def test_a_damaged_index_costs_nothing_but_time(past: PastRecords, content: bytes):
    name = past.add("verified", answer="It is 42")
    past.aged()
    index = past.home.delegations / "index.sqlite"
    index.write_bytes(content)
    assert [(read.row.id, read.texts.answer) for read in History(past.home).reads()] == [(name, "It is 42")]
    assert [(read.row.id, read.texts.answer) for read in History(past.home).reads()] == [(name, "It is 42")]


def test_the_index_is_nobody_elses_to_read(past: PastRecords):
    past.add("verified")
    list(History(past.home).rows())
    assert (past.home.delegations / "index.sqlite").stat().st_mode & 0o777 == 0o600


def test_an_index_that_cannot_be_written_is_done_without(past: PastRecords):
    name = past.add("verified")
    (past.home.delegations / "index.sqlite").mkdir()
    assert [row.id for row in History(past.home).rows()] == [name]


def test_nothing_of_a_record_that_is_gone_stays_in_the_index(past: PastRecords):
    import shutil

    gone, stays = past.add("verified", answer="a-word-of-its-own"), past.add("verified")
    past.aged()
    list(History(past.home).rows())
    shutil.rmtree(past.store.folder(gone))
    assert [row.id for row in History(past.home).rows()] == [stays]
    assert gone.encode() not in (past.home.delegations / "index.sqlite").read_bytes()
