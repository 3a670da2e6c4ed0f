"""Tickets and leases of questions: within the user's limit, on a server that may be away."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lease_office import LeaseOffice
from readers import ReadingUser, provider
from waiting import until

from delegation.errors import StackError
from delegation.processes.identity import ProcessId
from delegation.reading import slots
from delegation.reading.admission import Wish, admit_query
from delegation.reading.gate import Shared
from delegation.reading.leases import StackLeases
from delegation.reading.providers import NotAsked
from delegation.reading.question import Question
from delegation.reading.slots import LeasedSlots
from delegation.shared_state import SharedState, migrate, tickets
from delegation.stack_state import StackState

BUCKET, LIMIT = "model-of-p", "bucket:model-of-p"


def now() -> datetime:
    return datetime.now(UTC)


def stack_at(api_url: str) -> StackState:
    return StackState(
        version="0", config_hash="", keeper=ProcessId(pid=1, started=0), api_url=api_url, ui_url="", database_url="",
        prefect_home="", work_pool="", launcher_socket="", launcher_command=(), started_at=now(), auth_string="u:p",
    )  # fmt: skip


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[SharedState]:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    with SharedState(url) as state:
        yield state


@pytest.fixture
def office() -> Iterator[LeaseOffice]:
    with LeaseOffice({LIMIT: 2}) as office:
        yield office


@pytest.fixture
def question(tmp_path: Path) -> Question:
    user = ReadingUser(tmp_path / "user-of-this-test")
    user.configure([provider("p", "http://127.0.0.1:9/v1")])
    return admit_query(user.settings, "x", Wish()).question


@pytest.fixture
def gate(tables: SharedState, office: LeaseOffice) -> Iterator[Callable[[Question], Shared]]:
    with closing(StackLeases(stack_at(office.api_url))) as leases:
        yield lambda question: Shared(tables, question, LeasedSlots(tables, leases))


def test_a_question_holds_a_lease_of_the_users_limit_until_its_answer_is_told(gate, question, office, tables):
    with gate(question) as shared:
        with shared.reader_slot(question.readers[0]):
            assert list(office.held.values()) == [LIMIT]
        assert len(office.held) == 1, "nothing is told before the answer is out"
    assert (office.held, tickets.standing(tables, now=now())) == ({}, {})


def test_a_limit_of_the_user_is_never_exceeded_though_the_tickets_would_allow_more(gate, question, office):
    other = question.model_copy(update={"id": "rd-20261130t160527291-aaaa"})
    office.limits[LIMIT] = 1
    with gate(question) as shared, shared.reader_slot(question.readers[0]), gate(other) as second:
        with (
            pytest.raises(NotAsked, match="'p' has no free slot: all of bucket 'model-of-p' are taken"),
            second.reader_slot(other.readers[0]),
        ):
            raise AssertionError
        assert len(office.held) == 1


def test_a_limit_that_the_user_has_raised_counts_at_once(gate, question, office, tables):
    office.limits[LIMIT] = 8
    for number in range(6):
        tickets.take(tables, BUCKET, holder=f"dg-{number}", ceiling=8, priority="now", now=now())
    with gate(question) as shared, shared.reader_slot(question.readers[0]):
        assert tickets.standing(tables, now=now())[BUCKET].in_use == 7


def test_a_turn_that_the_line_refuses_gives_its_lease_back(gate, question, office, tables):
    for number in range(6):
        tickets.take(tables, BUCKET, holder=f"dg-{number}", ceiling=6, priority="now", now=now())
    with gate(question) as shared, pytest.raises(NotAsked), shared.reader_slot(question.readers[0]):
        raise AssertionError
    until(lambda: office.held == {})


def test_a_limit_that_nobody_made_yet_is_made_with_the_slots_of_the_settings(gate, question, office):
    del office.limits[LIMIT]
    with gate(question) as shared, shared.reader_slot(question.readers[0]):
        assert (office.limits, list(office.held.values())) == ({LIMIT: 6}, [LIMIT])


@pytest.mark.parametrize("how", ["answers nothing of use", "is gone"])
def test_a_server_that_is_away_stops_no_question_and_the_tickets_count(tables, question, office, how):
    office.answer = 503 if how == "answers nothing of use" else None
    url = office.api_url if how == "answers nothing of use" else "http://127.0.0.1:9/api"
    begun = time.monotonic()
    with (
        closing(StackLeases(stack_at(url))) as leases,
        Shared(tables, question, LeasedSlots(tables, leases)) as shared,
        shared.reader_slot(question.readers[0]) as slot,
    ):
        slot.before(10, 10)
        assert tickets.standing(tables, now=now())[BUCKET].in_use == 1
    assert time.monotonic() - begun < 2


def test_a_stack_that_was_started_anew_meanwhile_ends_no_answer(tables, question, office):
    leases = StackLeases(stack_at(office.api_url))
    with (
        Shared(tables, question, LeasedSlots(tables, leases)) as shared,
        shared.reader_slot(question.readers[0]) as slot,
    ):
        leases.close()
        assert leases.renew("any") == "unreachable"
        with pytest.raises(StackError):
            leases.grant(BUCKET, 1)
        assert slot._slot.is_held()
    assert tickets.standing(tables, now=now()) == {}


def test_a_server_that_hangs_is_waited_for_a_second_and_its_late_lease_is_given_back(
    tables, question, office, monkeypatch
):
    granted = StackLeases.grant

    def late(self, bucket, slots):
        time.sleep(1.6)
        return granted(self, bucket, slots)

    monkeypatch.setattr(StackLeases, "grant", late)
    begun = time.monotonic()
    with (
        closing(StackLeases(stack_at(office.api_url))) as leases,
        Shared(tables, question, LeasedSlots(tables, leases)) as shared,
        shared.reader_slot(question.readers[0]),
    ):
        assert time.monotonic() - begun < 1.5
        until(lambda: office.acquires == 1)
        until(lambda: office.held == {})


def test_a_lease_that_comes_at_the_moment_it_is_given_up_is_given_back(gate, question, office, monkeypatch):
    asked_for = slots._AskedLease.lease

    def too_late(self):
        asked_for(self)  # it is there by now

    monkeypatch.setattr(slots._AskedLease, "lease", too_late)
    with gate(question) as shared, pytest.raises(NotAsked), shared.reader_slot(question.readers[0]):
        raise AssertionError
    assert (office.acquires, office.held) == (1, {})


def test_a_slot_that_was_lost_ends_a_reading_in_parts(gate, question, office, tables, monkeypatch):
    monkeypatch.setattr("delegation.reading.slots.RENEW_SECONDS", 0.02)
    with gate(question) as shared, shared.reader_slot(question.readers[0]) as slot:
        slot.before(10, 10)
        office.expire()
        tickets.leave(tables, question.id, now=now())
        for number in range(6):
            tickets.take(tables, BUCKET, holder=f"dg-{number}", ceiling=6, priority="now", now=now())
        until(slot._slot._lost.is_set)
        with pytest.raises(Exception, match="the slot of 'p' was lost"):
            slot.before(10, 10)
