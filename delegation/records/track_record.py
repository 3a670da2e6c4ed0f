"""What models have come to so far, counted from the receipts of this home: nobody is asked and nothing is guessed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_args

from pydantic import Field

from delegation.card import Expects
from delegation.errors import FailureKind, UsageError
from delegation.receipt import Cost, CostKind, Outcome, Receipt
from delegation.records.store import RecordStore
from delegation.values import Value

# Ends that are the model's own doing. A refused key or a full disk says nothing about it.
_ITS_OWN: frozenset[FailureKind] = frozenset(
    (
        "context_overflow",
        "truncated",
        "empty_answer",
        "refused",
        "turn_limit",
        "time_limit",
        "budget",
        "repetition",
    )
)


class KindCost(Value):
    """Money of one kind; null where one of these delegations did not know its own."""

    kind: CostKind
    amount_usd: float | None
    delegations: int


class Tally(Value):
    """What some delegations came to.

    `judged` are those that a verify command was given for and that the model could have passed: verified, refuted, no
    change at all, or ended by the model's own doing. `costs` and `usd_per_verified` are of these, so the price of a
    verified result includes what the others took; it is null unless all of it is known and of one kind.
    """

    delegations: int
    outcomes: dict[Outcome, int]
    judged: int
    verified: int
    pass_rate: float | None
    costs: tuple[KindCost, ...]
    cost_kind: CostKind | None = Field(description="The one kind of all costs; null where kinds mix or there are none.")
    usd_per_verified: float | None


class KindRecord(Tally):
    """One kind of card: what was asked for, and where. `repo` is null where the card had no folder."""

    expects: Expects
    repo: str | None


class ModelRecord(Tally):
    """All that one model did, and the same by kind of card."""

    model: str
    kinds: tuple[KindRecord, ...]


class TrackRecord(Value):
    """Every model that has a receipt here. `unreadable` counts records that could not be read and are left out."""

    models: tuple[ModelRecord, ...]
    unreadable: int


@dataclass(frozen=True)
class _Done:
    model: str
    expects: Expects
    repo: str
    receipt: Receipt
    judged: bool


def track_record(store: RecordStore, no_repository: str) -> TrackRecord:
    """Counted anew from all receipts. `no_repository` is the folder that cards without one are given."""
    unreadable = 0
    done: list[_Done] = []
    for summary in store.summaries():
        unreadable += summary.problem is not None
        if summary.receipt is not None and summary.receipt.model_used is not None:
            done.append(_done(store, summary.receipt, no_repository))
    done.sort(key=lambda each: (each.model, each.expects, each.repo))
    models = tuple(_model(name, list(group)) for name, group in groupby(done, key=lambda each: each.model))
    return TrackRecord(models=models, unreadable=unreadable)


def _done(store: RecordStore, receipt: Receipt, no_repository: str) -> _Done:
    repo = "" if receipt.repo == no_repository else receipt.repo
    return _Done(_answering(receipt), receipt.expects, repo, receipt, _is_judged(store, receipt))


def _answering(receipt: Receipt) -> str:
    """The alias; where another model truly answered, that one's name, since the work was its."""
    if receipt.fallback_note and receipt.response_model:
        return f"{receipt.response_model} (asked as {receipt.model_used})"
    return str(receipt.model_used)


def _is_judged(store: RecordStore, receipt: Receipt) -> bool:
    match receipt.outcome:
        case "verified" | "refuted":
            return True
        case "no_change":
            return _had_command(store, receipt)
        case "failed":
            return receipt.failure_kind in _ITS_OWN and _had_command(store, receipt)
        case _:
            return False


def _had_command(store: RecordStore, receipt: Receipt) -> bool:
    if receipt.verification is not None:
        return True
    try:
        return store.request(receipt.id).card.verify is not None
    except UsageError:
        return False


def _model(name: str, done: Sequence[_Done]) -> ModelRecord:
    kinds = groupby(done, key=lambda each: (each.expects, each.repo))
    return ModelRecord(
        **_tally(done),
        model=name,
        kinds=tuple(
            KindRecord(**_tally(list(group)), expects=expects, repo=repo or None) for (expects, repo), group in kinds
        ),
    )


def _tally(done: Iterable[_Done]) -> dict[str, Any]:
    """The fields of a `Tally`."""
    done = list(done)
    judged = [each.receipt for each in done if each.judged]
    verified = sum(receipt.outcome == "verified" for receipt in judged)
    costs = tuple(_costs(judged))
    only = costs[0] if len(costs) == 1 else None
    amount = only.amount_usd if only else None
    counts = Counter(each.receipt.outcome for each in done)
    return {
        "delegations": len(done),
        "outcomes": {outcome: counts[outcome] for outcome in get_args(Outcome) if counts[outcome]},
        "judged": len(judged),
        "verified": verified,
        "pass_rate": verified / len(judged) if judged else None,
        "costs": costs,
        "cost_kind": only.kind if only else None,
        "usd_per_verified": amount / verified if amount is not None and verified else None,
    }


def _costs(receipts: Sequence[Receipt]) -> Iterator[KindCost]:
    """Each kind for itself; one amount that is not known makes the sum unknown."""
    found = [cost for receipt in receipts for cost in _costs_of(receipt)]
    for kind in get_args(CostKind):
        amounts = [cost.amount_usd for cost in found if cost.kind == kind]
        if amounts:
            known = [amount for amount in amounts if amount is not None]
            total = sum(known) if len(known) == len(amounts) else None
            yield KindCost(kind=kind, amount_usd=total, delegations=len(amounts))


def _costs_of(receipt: Receipt) -> tuple[Cost, ...]:
    """Nothing for a delegation whose requests were all refused before an answer began."""
    if receipt.costs:
        return receipt.costs
    answered = receipt.usage is not None and receipt.turns
    return (receipt.cost,) if answered else ()
