"""What became of one delegation and when: from its record alone, whoever asks and whatever runs.

Steps and waits are of `steps.jsonl`, turns and changes of model of the agent's own log, the two runs of the verify
command of the receipts. What an older record did not note is left out, and no time is guessed.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, assert_never

from pydantic import Field, ValidationError

from delegation.agents.attempts import own_events
from delegation.agents.trajectory import Event, Trajectory
from delegation.errors import DelegateError
from delegation.receipt import CommandRun, Receipt
from delegation.records.applied import Applied, applied_of
from delegation.records.entry import Progress
from delegation.records.step_log import steps_of
from delegation.records.store import RecordStore
from delegation.records.wording import count, failing_of
from delegation.values import Value

Kind = Literal[
    "submitted", "step", "waiting", "parked", "agent", "turn", "refused", "failover", "resumed", "verify", "ended",
    "applied",
]  # fmt: skip


class Moment(Value):
    """One thing that happened. `at` is null where only its length is known; it then belongs to the one before it.
    `seconds` is how long it took, null while it goes on and where nobody noted it."""

    at: datetime | None
    kind: Kind
    what: str
    detail: str | None = None
    seconds: float | None = Field(default=None, ge=0)


def timeline_of(store: RecordStore, delegation_id: str) -> list[Moment]:
    """All moments of a delegation in order. Raises NotFoundError or UsageError where its `entry.json` cannot be read; a
    log that cannot be read tells nothing."""
    folder = store.folder(delegation_id)
    entry = store.entry(delegation_id)
    receipts = _receipts(folder)
    steps = list(_steps(steps_of(folder), receipts))
    if not any(each.kind == "submitted" for each in steps):
        steps.insert(0, Moment(at=entry.created_at, kind="submitted", what="submitted"))
    if not any(each.kind == "ended" for each in steps):
        steps += [_ended(receipt) for receipt in receipts if receipt.ended_at]
    others = [*_of_agent(_events(folder)), *map(_came_home, applied_of(folder))]
    return _in_order([*steps, *others])


def _in_order(moments: Sequence[Moment]) -> list[Moment]:
    """By time; what has none stays behind the one that it followed."""
    keyed: list[tuple[datetime, int, Moment]] = []
    last: datetime | None = None
    for place, each in enumerate(moments):
        last = each.at or last
        assert last is not None, "the first one has a time"
        keyed.append((last, place, each))
    return [each for _, _, each in sorted(keyed, key=lambda key: (key[0], key[1]))]


def _steps(noted: Sequence[Progress], receipts: Sequence[Receipt]) -> Iterator[Moment]:
    for step, after in pairwise([*noted, None]):
        assert step is not None, "only the last one is"
        seconds = max(0.0, (after.updated_at - step.updated_at).total_seconds()) if after else None
        yield _step(step, seconds, is_first=step is noted[0])
        if step.step == "verify":
            judged = next((each for each in receipts if (each.ended_at or each.created_at) >= step.updated_at), None)
            yield from _verify_runs(judged)


def _step(step: Progress, seconds: float | None, *, is_first: bool) -> Moment:
    def moment(kind: Kind, detail: str | None) -> Moment:
        what = {"step": step.step, "ended": "ended"}.get(kind, kind)
        return Moment(at=step.updated_at, kind=kind, what=what, detail=detail, seconds=seconds)

    match step.step:
        case "submitted":
            return moment("submitted", None if is_first else step.detail or "again")
        case "waiting" if step.parked_until is not None:
            until = f"until {step.parked_until:%Y-%m-%d %H:%M:%S} UTC"
            return moment("parked", _joined(until, step.queue_reason, step.detail))
        case "waiting":
            return moment("waiting", _joined(step.queue_reason, step.detail))
        case "done":
            return moment("ended", step.detail).model_copy(update={"seconds": None})
        case "worktree" | "verify":
            return moment("step", step.detail)
        case "prepare" | "agent" | "collect" | "record":
            return moment("step", None)
        case other:
            assert_never(other)


def _verify_runs(receipt: Receipt | None) -> Iterator[Moment]:
    if receipt is None or receipt.verification is None:
        return
    runs = {"verify base": receipt.verification.base, "verify candidate": receipt.verification.candidate}
    for what, run in runs.items():
        if run is not None:
            seconds = None if run.cached else run.seconds
            yield Moment(at=None, kind="verify", what=what, detail=_verdict(run), seconds=seconds)


def _verdict(run: CommandRun) -> str:
    failing = failing_of(run)
    tests = None if run.tests is None else count(len(run.tests), "test") + (f", {failing} failing" if failing else "")
    return _joined(run.verdict, run.reason, tests, "kept from an earlier run" if run.cached else None) or run.verdict


def _ended(receipt: Receipt) -> Moment:
    return Moment(at=receipt.ended_at, kind="ended", what="ended", detail=receipt.outcome)


def _came_home(applied: Applied) -> Moment:
    where = f"as branch {applied.where}" if applied.how == "branch" else f"in {applied.where}"
    together = "together with others, " if applied.how == "together" else ""
    return Moment(at=applied.at, kind="applied", what="applied", detail=f"{together}{where}")


def _of_agent(events: Sequence[Event]) -> Iterator[Moment]:
    asked_at: datetime | None = None
    last: Moment | None = None
    for event in own_events(events):
        at = _time(event)
        if at is None:
            continue
        match event["type"]:
            case "header":
                yield Moment(at=at, kind="agent", what="agent begins", detail=_text(event, "alias"))
            case "request":
                asked_at = at
            case "reply":  # the last one calls no tool, and so ends no turn
                took = max(0.0, (at - asked_at).total_seconds()) if asked_at else None
                last = Moment(at=at, kind="turn", what=f"turn {event.get('turn')}", detail="the answer", seconds=took)
            case "turn":
                last = None
                seconds = max(0.0, (at - asked_at).total_seconds()) if asked_at else None
                yield Moment(at=at, kind="turn", what=f"turn {event.get('turn')}", detail=_turn(event), seconds=seconds)
                asked_at = None
            case "wait":
                what = "refused" if event.get("asked", True) else "held back"
                yield Moment(at=at, kind="refused", what=what, detail=_failure(event, "alias"))
            case "handover":
                models = f"{event.get('from')} -> {event.get('to')}"
                yield Moment(at=at, kind="failover", what="failover", detail=_joined(models, _failure(event)))
            case "resume":
                yield Moment(at=at, kind="resumed", what="taken up again", detail=_text(event, "turn", "at turn "))
            case "end":
                if last is not None:
                    yield last
                why = _joined(_text(event, "stop_reason"), _failure(event))
                yield Moment(at=at, kind="agent", what="agent ends", detail=why)
            case _:
                pass


def _turn(event: Event) -> str | None:
    calls, last = event.get("tool_calls"), event.get("last_tool")
    return f"{count(calls, 'tool call')} so far, last {last}" if last and isinstance(calls, int) else None


def _failure(event: Event, name: str | None = None) -> str | None:
    return _joined(_text(event, name) if name else None, _text(event, "failure_kind"), _text(event, "failure_message"))


def _text(event: Event, name: str, before: str = "") -> str | None:
    value = event.get(name)
    return None if value is None or value == "" else f"{before}{value}"


def _joined(*parts: str | None) -> str | None:
    return ": ".join(part for part in parts if part) or None


def _time(event: Event) -> datetime | None:
    try:
        return datetime.fromisoformat(event["time"])
    except (KeyError, TypeError, ValueError):
        return None


def _events(folder: Path) -> Sequence[Event]:
    try:
        return Trajectory(folder / "trajectory.jsonl").events()
    except DelegateError:
        return ()


def _receipts(folder: Path) -> list[Receipt]:
    """All that the record has, the earliest first; one that cannot be read is left out."""
    found = [_receipt(path) for path in (*folder.glob("receipt.*.json"), folder / "receipt.json")]
    known = [receipt for receipt in found if receipt is not None]
    return sorted(known, key=lambda receipt: receipt.ended_at or receipt.created_at)


def _receipt(path: Path) -> Receipt | None:
    try:
        content: Any = path.read_text(encoding="utf-8")
        return Receipt.model_validate_json(content)
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
