"""What a night came to, as one value: every card of the folder is in it exactly once."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Literal, get_args

from pydantic import Field

from delegation.cards import FoundCard
from delegation.night.commands import Commands
from delegation.night.costs import Costs, sum_of
from delegation.night.scheduler import best_of
from delegation.night.shift import Shift
from delegation.night.values import Attempt, Decision
from delegation.receipt import Receipt
from delegation.records.store import title_of
from delegation.records.wording import explanation, size_of
from delegation.values import Value

Group = Literal[
    "verified", "answered", "unverified", "refuted", "no_change", "failed", "unknown", "cancelled", "running",
    "passed_over", "broken",
]  # fmt: skip
GROUPS: tuple[Group, ...] = get_args(Group)


class Try(Value):
    """One attempt of a card. `outcome` is null while it runs; `chosen` is the best of them."""

    delegation_id: str
    outcome: str | None
    size: str | None = None
    ui_url: str | None = None
    chosen: bool = False


class CardLine(Value):
    """One card, its best attempt, and what a person may do now. `commands` are ready for a shell."""

    card: str
    place: str
    title: str
    group: Group
    reason: str
    delegation_id: str | None = None
    tried: tuple[Try, ...] = Field(default=(), description="Each attempt.")
    model: str | None = None
    done_elsewhere: str | None = Field(
        default=None, description="Who began it, where it was not this night: its key stands for that delegation."
    )
    accepted: bool = Field(default=False, description="It came to what it asked for; its dependants may begin.")
    cost: str | None = Field(default=None, description="Of all attempts, by kind.")
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
    costs: Costs = Field(description="Of this night's own delegations, by kind.")
    spent_usd: float = Field(description="What counted against the night's budget: reported and estimated together.")
    lines: tuple[CardLine, ...]
    passed_over_files: tuple[str, ...]
    ui_url: str | None = Field(default=None, description="The night's run.")
    go_on: str | None = Field(default=None, description="The command that does what is left; null when nothing is.")

    @property
    def accepted(self) -> int:
        """How many cards came to what they asked for."""
        return sum(line.accepted for line in self.lines)

    @property
    def summary(self) -> str:
        return f"{self.accepted} of {len(self.lines)} cards accepted"

    @property
    def counts(self) -> dict[Group, int]:
        """How many cards each group has, of those that have any."""
        return {group: number for group in GROUPS if (number := len(self.of(group)))}

    def of(self, group: Group) -> list[CardLine]:
        """Those that a person wants to see first before the others."""
        found = [line for line in self.lines if line.group == group]
        return sorted(found, key=lambda line: (line.review_by or date.max, line.card))


_LEFT: tuple[Group, ...] = ("failed", "unknown", "cancelled", "passed_over", "broken")


def report_of(shift: Shift, decision: Decision, now: datetime, ui_url: str | None = None) -> NightReport:
    """The report as it stands; a night that was cut short has cards that still run."""
    commands = Commands(shift.settings, shift.terms.cards, shift.night_id)
    attempts = shift.attempts()
    cards = (_line(shift, card, attempts[card.id], decision, commands) for card in shift.found.cards)
    lines = (*cards, *_broken(shift, commands))
    return NightReport(
        night_id=shift.night_id,
        source=shift.found.source,
        begun=shift.begun,
        ended=now,
        stopped=_stopped(decision),
        costs=sum_of(shift.own_receipts()),
        spent_usd=shift.spent_usd(),
        lines=lines,
        passed_over_files=shift.found.passed_over,
        ui_url=ui_url,
        go_on=commands.go_on() if any(map(_is_left, lines)) else None,
    )


def _is_left(line: CardLine) -> bool:
    """Whether the same night called again would do it."""
    return line.group in _LEFT and line.done_elsewhere is None


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


def _line(
    shift: Shift, card: FoundCard, attempts: Sequence[Attempt], decision: Decision, commands: Commands
) -> CardLine:
    best = best_of(attempts)
    line = CardLine(
        card=card.id,
        place=card.place,
        title=title_of(card.fields.task),
        group="passed_over",
        reason=_not_begun(decision.passed_over.get(card.id)),
        review_by=card.fields.review_by,
        tags=card.fields.tags,
    )
    if not attempts:
        return line.model_copy(update={"commands": {"retry": commands.go_on()}})
    line = line.model_copy(update={"tried": tuple(_try(shift, each, best) for each in attempts)})
    receipt = shift.receipt(best.delegation_id) if best else None
    if best is None or receipt is None:
        return line.model_copy(update=_of_running(shift, attempts, commands))
    tried = [found for each in attempts if (found := shift.receipt(each.delegation_id)) is not None]
    elsewhere = shift.done_elsewhere(receipt.id)
    ended = {"group": best.outcome, "accepted": best.accepted, "done_elsewhere": elsewhere}
    return line.model_copy(update={**ended, **_of_receipt(receipt, tried, commands)})


def _not_begun(reason: str | None) -> str:
    return f"It did not begin: {reason}." if reason else "It did not begin."


def _try(shift: Shift, attempt: Attempt, best: Attempt | None) -> Try:
    receipt = shift.receipt(attempt.delegation_id)
    return Try(
        delegation_id=attempt.delegation_id,
        outcome=attempt.outcome,
        size=size_of(receipt.patch) if receipt and receipt.patch else None,
        ui_url=receipt.ui_url if receipt else None,
        chosen=best is not None and best.delegation_id == attempt.delegation_id,
    )


def _of_running(shift: Shift, attempts: Sequence[Attempt], commands: Commands) -> dict[str, object]:
    name = attempts[0].delegation_id
    return {
        "group": "running",
        "reason": "It had not ended when this was written.",
        "delegation_id": name,
        "done_elsewhere": shift.done_elsewhere(name),
        "commands": {"look": commands.look(name)},
    }


def _of_receipt(receipt: Receipt, tried: Sequence[Receipt], commands: Commands) -> dict[str, object]:
    return {
        "delegation_id": receipt.id,
        "reason": explanation(receipt),
        "model": receipt.model_used or receipt.model_requested,
        "cost": sum_of(tried).text,
        "seconds": receipt.timings.total_seconds,
        "size": size_of(receipt.patch) if receipt.patch else None,
        "ui_url": receipt.ui_url,
        "commands": dict(commands.of(receipt, tried)),
    }


def _broken(shift: Shift, commands: Commands) -> Iterator[CardLine]:
    """A card with several mistakes is one card. A mistake without a card's name is a line of its own."""
    together: dict[tuple[str, str, int | None], list[str]] = {}
    for problem in shift.found.problems:
        known = problem.card is not None
        key = problem.file, problem.card or "?", None if known else problem.line
        together.setdefault(key, []).append(problem.text)
    for (file, card, _), texts in together.items():
        yield CardLine(
            card=card, place=file, title="", group="broken", reason="; ".join(texts),
            commands={"check": commands.check(), "retry": commands.go_on()},
        )  # fmt: skip
