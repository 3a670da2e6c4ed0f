"""What a night came to, as one value: every card of the folder is in it exactly once."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Literal, get_args

from pydantic import Field

from delegation.cards import FoundCard
from delegation.night.shift import Shift
from delegation.night.values import Decision
from delegation.receipt import Receipt
from delegation.records.report import spent
from delegation.records.store import title_of
from delegation.records.wording import explanation, size_of
from delegation.values import Value

Group = Literal[
    "verified", "answered", "unverified", "refuted", "no_change", "failed", "cancelled", "unknown", "running",
    "passed_over", "broken",
]  # fmt: skip
GROUPS: tuple[Group, ...] = get_args(Group)


class CardLine(Value):
    """One card, its best attempt, and what a person may do now. `commands` are ready for a shell."""

    card: str
    place: str
    title: str
    group: Group
    reason: str
    delegation_id: str | None = None
    tried: tuple[str, ...] = Field(default=(), description="Each attempt: its id and outcome.")
    model: str | None = None
    cost: str | None = None
    seconds: float | None = None
    size: str | None = None
    ui_url: str | None = None
    review_by: date | None = None
    tags: tuple[str, ...] = ()
    commands: Mapping[str, str] = Field(default_factory=dict[str, str])


class NightReport(Value):
    """The morning report."""

    night_id: str
    source: str
    begun: datetime
    ended: datetime
    stopped: str | None
    spent_usd: float = Field(description="What is known; `unknown_costs` delegations did not say.")
    unknown_costs: int
    lines: tuple[CardLine, ...]
    passed_over_files: tuple[str, ...]

    @property
    def accepted(self) -> int:
        """How many cards came to what they asked for."""
        return len(self.of("verified")) + len(self.of("answered"))

    def of(self, group: Group) -> list[CardLine]:
        """Those that a person wants to see first before the others."""
        found = [line for line in self.lines if line.group == group]
        return sorted(found, key=lambda line: (line.review_by or date.max, line.card))


def report_of(shift: Shift, decision: Decision, now: datetime) -> NightReport:
    """The report as it stands; a night that was cut short has cards that still run."""
    receipts = [receipt for name in shift.ledger.ids() if (receipt := shift.receipt(name)) is not None]
    return NightReport(
        night_id=shift.night_id,
        source=shift.found.source,
        begun=shift.begun,
        ended=now,
        stopped=_stopped(decision),
        spent_usd=shift.spent_usd(),
        unknown_costs=sum(receipt.cost.kind == "unknown" for receipt in receipts),
        lines=(*(_line(shift, card, decision) for card in shift.found.cards), *_broken(shift)),
        passed_over_files=shift.found.passed_over,
    )


def _stopped(decision: Decision) -> str | None:
    match decision.stopped:
        case "time":
            return "Its time was over."
        case "budget":
            return "Its budget was used up."
        case "errors":
            return "Too much of its work failed."
        case None:
            return None


def _line(shift: Shift, card: FoundCard, decision: Decision) -> CardLine:
    attempts, best = shift.attempts(card), shift.best(card)
    receipt = shift.receipt(best.delegation_id) if best else None
    passed = decision.passed_over.get(card.id)
    line = CardLine(
        card=card.id,
        place=card.place,
        title=title_of(card.fields.task),
        group="running" if attempts else "passed_over",
        reason="It had not ended when this was written." if attempts else passed or "It did not begin.",
        tried=tuple(f"{each.delegation_id} {each.outcome or 'running'}" for each in attempts),
        review_by=card.fields.review_by,
        tags=card.fields.tags,
    )
    if best is not None and best.outcome is not None:
        line = line.model_copy(update={"group": best.outcome, "delegation_id": best.delegation_id})
        line = line.model_copy(update=_of_receipt(receipt) if receipt else _of_nothing(best.delegation_id))
    return line


def _of_nothing(delegation_id: str) -> dict[str, object]:
    return {
        "reason": "Its flow run ended without a receipt: nobody can say what became of it.",
        "commands": {"look": f"delegate show {delegation_id}", "retry": f"delegate rerun {delegation_id}"},
    }


def _of_receipt(receipt: Receipt) -> dict[str, object]:
    return {
        "reason": explanation(receipt),
        "model": receipt.model_used or receipt.model_requested,
        "cost": spent(receipt),
        "seconds": receipt.timings.total_seconds,
        "size": size_of(receipt.patch) if receipt.patch else None,
        "ui_url": receipt.ui_url,
        "commands": dict(_commands(receipt)),
    }


def _commands(receipt: Receipt) -> Iterator[tuple[str, str]]:
    if receipt.patch is not None:
        accepted = receipt.outcome in ("verified", "unverified")
        yield "accept", f"delegate apply {receipt.id}" + ("" if accepted else " --any-outcome")
    yield "retry", f"delegate rerun {receipt.id}"
    if receipt.branch is not None:
        yield "drop", f"git -C {shlex.quote(receipt.repo)} branch -D {shlex.quote(receipt.branch)}"


def _broken(shift: Shift) -> Iterator[CardLine]:
    """A card with several mistakes is one card. A mistake without a card's name is a line of its own."""
    together: dict[tuple[str, str, int | None], list[str]] = {}
    for problem in shift.found.problems:
        known = problem.card is not None
        key = problem.file, problem.card or "?", None if known else problem.line
        together.setdefault(key, []).append(problem.text)
    for (file, card, _), texts in together.items():
        yield CardLine(card=card, place=file, title="", group="broken", reason="; ".join(texts))
