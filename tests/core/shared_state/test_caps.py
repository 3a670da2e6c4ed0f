"""Adaptive caps as shared rows, and the log of changes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, select, text

from delegation.errors import UsageError
from delegation.shared_state import SharedState, caps, changes, migrate, tables
from delegation.shared_state.changes import Change

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def told(state: SharedState) -> list[str]:
    return [each.what for each in reversed(changes.last(state, bucket="b"))]


def test_a_bucket_without_a_429_has_no_row(state: SharedState):
    assert caps.succeeded(state, "b", ceiling=6, now=NOW) is None
    assert caps.of(state, "b") is None
    assert caps.effective(None, 6, NOW) == 6


def test_what_one_learns_all_know(state: SharedState, url: str):
    learnt = caps.throttled(state, "b", ceiling=6, hint_seconds=30.0, now=NOW)
    with SharedState(url) as other:
        assert caps.of(other, "b") == learnt
        caps.succeeded(other, "b", ceiling=6, now=after(6), count=3)
    raised = caps.of(state, "b")
    assert raised is not None
    assert raised.cap == 4
    assert changes.last(state, 9, "b") == [
        Change(after(6), "b", None, "cap 3 -> 4", "requests were answered without a 429"),
        Change(NOW, "b", None, "cap 6 -> 3", "429, wait 30 s"),
    ]


def test_a_bucket_that_held_at_its_ceiling_has_no_row_again(state: SharedState):
    caps.throttled(state, "b", ceiling=2, hint_seconds=None, now=NOW)
    for window in range(1, 17):
        caps.succeeded(state, "b", ceiling=2, now=after(10 * window), count=2)
    assert caps.of(state, "b") is None
    assert told(state) == ["cap 2 -> 1", "cap 1 -> 2"]


def test_an_override_counts_at_once_and_goes_without_a_trace(state: SharedState):
    caps.override(state, "b", 2, now=NOW, who="anna")
    caps.override(state, "b", 2, now=NOW, who="anna")
    assert caps.effective(caps.of(state, "b"), 6, NOW) == 2
    caps.throttled(state, "b", ceiling=6, hint_seconds=None, now=NOW)
    caps.override(state, "b", None, now=after(1), who="anna")
    assert caps.of(state, "b") is None
    assert told(state) == ["cap set to 2", "cap no longer set by hand"]
    assert changes.last(state, 1)[0].reason == "by anna"


def test_an_override_keeps_what_was_learnt_before(state: SharedState):
    learnt = caps.throttled(state, "b", ceiling=6, hint_seconds=None, now=NOW)
    caps.override(state, "b", 5, now=NOW, who="anna")
    caps.override(state, "b", None, now=NOW, who="anna")
    assert caps.of(state, "b") == learnt


def test_a_cap_below_one_is_refused(state: SharedState):
    with pytest.raises(UsageError, match="'b' cannot be 0: at least 1"):
        caps.override(state, "b", 0, now=NOW, who="anna")


def test_codex_keeps_its_own_numbers_and_remembers_its_throttles(state: SharedState):
    for second in (0, 100, 200):
        caps.throttled(state, "codex", ceiling=8, hint_seconds=None, now=after(second))
    cap = caps.of(state, "codex")
    assert [caps.effective(cap, 8, after(at), caps.rule_of("codex")) for at in (201, 799, 800)] == [4, 4, 8]


@pytest.mark.parametrize(
    "damage",
    ["cap = 'rubbish'", "cap = -3", "cap = 0", "cap = 2.5", "override = 0", "throttles = 'x'", "successes = ''"],
)
def test_a_damaged_row_is_as_none(tmp_path: Path, damage: str):
    url = f"sqlite:///{tmp_path}/shared.db"
    migrate(url)
    with SharedState(url) as state:
        caps.throttled(state, "b", ceiling=6, hint_seconds=None, now=NOW)
        with state.transaction() as connection:
            connection.execute(text(f"UPDATE caps SET {damage}"))
        assert caps.effective(caps.of(state, "b"), 6, NOW) in (6, 3)
        caps.throttled(state, "b", ceiling=6, hint_seconds=None, now=after(60))
        healed = caps.of(state, "b")
        assert healed is not None
        assert healed.throttles == ()
        assert caps.effective(healed, 6, after(61)) in (3, 1)


def test_the_log_keeps_its_newest(state: SharedState, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(changes, "KEPT", 5)
    with state.transaction() as connection:
        for number in range(12):
            changes.note(connection, bucket=f"b{number % 2}", what=f"n{number}", reason="", now=NOW)
        assert connection.execute(select(func.count()).select_from(tables.changes)).scalar_one() == 5
    assert [each.what for each in changes.last(state, 3)] == ["n11", "n10", "n9"]
    assert [each.what for each in changes.last(state, 3, bucket="b0")] == ["n10", "n8"]


def test_the_migrations_make_the_tables_that_the_code_uses(state: SharedState):
    with state.transaction() as connection:
        options = {"compare_type": False, "include_schemas": True, "version_table": "delegate_migrations"}
        found = compare_metadata(MigrationContext.configure(connection, opts=options), _metadata(connection))
    ours = [each for each in found if "delegate_migrations" not in str(each)]
    assert ours == []


def _metadata(connection):
    if connection.dialect.name == "postgresql":
        return tables.metadata
    plain = tables.metadata.__class__()
    for table in tables.metadata.sorted_tables:
        table.to_metadata(plain, schema=None)
    return plain
