"""Idempotency keys on the database that every platform has; the stack's tests run the same on PostgreSQL."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from delegation.errors import ConflictError, StackError
from delegation.shared_state import Claim, SharedState, claim, migrate

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SharedState]:
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    migrate(url)
    with SharedState(url) as state:
        yield state


def test_the_same_key_returns_the_first_delegation(state: SharedState):
    first = claim(state, id="dg-1", key="k", request_hash="h", created_at=NOW)
    again = claim(state, id="dg-2", key="k", request_hash="h", created_at=NOW)
    assert first == Claim(id="dg-1", number=1, is_new=True)
    assert again == Claim(id="dg-1", number=1, is_new=False)


def test_the_same_key_with_another_request_is_refused(state: SharedState):
    claim(state, id="dg-1", key="k", request_hash="h", created_at=NOW)
    with pytest.raises(ConflictError, match="'k' already stands for 'dg-1'"):
        claim(state, id="dg-2", key="k", request_hash="other", created_at=NOW)


def test_without_a_key_every_request_is_its_own(state: SharedState):
    numbers = [claim(state, id=f"dg-{n}", key=None, request_hash="h", created_at=NOW).number for n in range(3)]
    assert numbers == [1, 2, 3]


def test_twenty_callers_at_once_with_one_key_get_one_delegation(state: SharedState):
    claims: list[Claim] = []

    def call(caller: int) -> None:
        claims.append(claim(state, id=f"dg-{caller}", key="k", request_hash="h", created_at=NOW))

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(claims) == 20
    assert len({(c.id, c.number) for c in claims}) == 1
    assert sum(c.is_new for c in claims) == 1


def test_a_database_that_cannot_be_reached_is_a_stack_error_without_its_password():
    state = SharedState("postgresql://user:hunter2@127.0.0.1:1/none")
    with pytest.raises(StackError, match="shared tables") as caught, state.transaction():
        pass
    state.close()
    assert "hunter2" not in str(caught.value)


def test_an_unsupported_database_is_named():
    with pytest.raises(StackError, match="'mysql' is not supported"):
        SharedState("mysql://localhost/x")
