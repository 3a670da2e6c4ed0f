"""Counts of what was delegated, by day and model or by whatever else is asked for."""

import statistics
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Literal, assert_never, get_args

from pydantic import Field

from delegation.receipt import Outcome
from delegation.records.history import HistoryRow
from delegation.records.tally import KindCost, costs_by_kind, outcomes_of
from delegation.values import Value

Part = Literal["day", "model", "repo", "agent", "outcome", "lane", "bucket"]
PARTS: tuple[Part, ...] = get_args(Part)
BY_DEFAULT: tuple[Part, ...] = ("day", "model")


class Count(Value):
    """A sum over the delegations that know theirs, and how many did not. The sum is null where none did."""

    total: int | None
    unknown: int = Field(description="Delegations that asked a model and do not know it.")


class Statistic(Value):
    """What the delegations of one group came to. `group` has a value for each part, null where the record had none.

    `verified_rate` is of the judged ones: those that had a verify command and that the model could have passed.
    `costs` has one entry for each kind; its amount is null where one of them is not known. Medians are of those that
    have ended and know theirs: `work` is agent and verify together, `total` is from the first submission to the last
    end, with all waiting and with the time before a run was judged again or taken up again.
    """

    group: dict[Part, str | None]
    delegations: int
    unfinished: int
    outcomes: dict[Outcome, int]
    judged: int
    verified: int
    verified_rate: float | None
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    costs: tuple[KindCost, ...]
    median_agent_seconds: float | None
    median_work_seconds: float | None
    median_total_seconds: float | None


class Statistics(Value):
    """One entry for each group, in order, and one over all. Records that cannot be read are counted and left out."""

    by: tuple[Part, ...]
    groups: tuple[Statistic, ...]
    overall: Statistic
    unreadable: int


def statistics_of(rows: Iterable[HistoryRow], by: Sequence[Part], zone: tzinfo | None = None) -> Statistics:
    """`zone` says where a day begins; none means this machine's clock."""
    known = list(rows)
    readable = [row for row in known if row.problem is None]
    groups: dict[tuple[str | None, ...], list[HistoryRow]] = {}
    for row in readable:
        groups.setdefault(tuple(_part(row, part, zone) for part in by), []).append(row)
    order = sorted(groups, key=lambda key: [(value is None, value or "") for value in key])
    return Statistics(
        by=tuple(by),
        groups=tuple(_statistic(dict(zip(by, key, strict=True)), groups[key]) for key in order),
        overall=_statistic({}, readable),
        unreadable=len(known) - len(readable),
    )


def _part(row: HistoryRow, part: Part, zone: tzinfo | None) -> str | None:
    match part:
        case "day":
            return None if row.created_at is None else f"{row.created_at.astimezone(zone):%Y-%m-%d}"
        case "model":
            return row.answered_by or row.model
        case "outcome":
            return row.outcome or "unfinished"
        case "repo" | "agent" | "lane" | "bucket":
            return getattr(row, part)
        case other:
            assert_never(other)


def _statistic(group: dict[Part, str | None], rows: Sequence[HistoryRow]) -> Statistic:
    judged = [row for row in rows if row.judged]
    verified = sum(row.outcome == "verified" for row in judged)
    return Statistic(
        group=group,
        delegations=len(rows),
        unfinished=sum(row.outcome is None for row in rows),
        outcomes=outcomes_of(rows),
        judged=len(judged),
        verified=verified,
        verified_rate=verified / len(judged) if judged else None,
        input_tokens=_count(rows, "input_tokens"),
        output_tokens=_count(rows, "output_tokens"),
        cached_tokens=_count(rows, "cached_tokens"),
        costs=tuple(costs_by_kind(rows)),
        median_agent_seconds=_median(row.agent_seconds for row in rows),
        median_work_seconds=_median(map(_work_seconds, rows)),
        median_total_seconds=_median(row.total_seconds for row in rows),
    )


def _count(rows: Sequence[HistoryRow], name: Literal["input_tokens", "output_tokens", "cached_tokens"]) -> Count:
    """One that never asked a model has no tokens that somebody could know."""
    known: list[int] = [value for row in rows if (value := getattr(row, name)) is not None]
    asked = [row for row in rows if row.requests or row.costs]
    return Count(total=sum(known) if known else None, unknown=sum(getattr(row, name) is None for row in asked))


def _work_seconds(row: HistoryRow) -> float | None:
    """Null where the agent's are not known; without a verify run there are only those."""
    return None if row.agent_seconds is None else row.agent_seconds + (row.verify_seconds or 0.0)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
