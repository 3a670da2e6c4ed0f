"""One night's work: its cards, the delegations they became, and how it stands. Knows nothing of who runs them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.admission import admit
from delegation.cards import CardSet, FoundCard, read_cards
from delegation.checkout.publish import ref_of
from delegation.errors import DelegateError, UsageError
from delegation.home import Home
from delegation.models.catalogue import Catalogue
from delegation.night.ledger import Child, Key, Ledger
from delegation.night.plan import job_of, looked_at
from delegation.night.scheduler import best_of
from delegation.night.terms import Terms, night_id_of, rules_of
from delegation.night.values import Attempt, Job, Rules, Standing, Start
from delegation.outcome import exit_code_of
from delegation.receipt import Cost, Receipt
from delegation.records import RecordStore
from delegation.records.labels import run_name_of
from delegation.request import DelegationRequest
from delegation.settings import Settings
from delegation.shared_state import SharedState, cooldowns
from delegation.submitting import Entered, enter

_DONE_ANEW = ("failed", "cancelled", "unknown")
_KNOWN_COST = ("reported", "estimated")


@dataclass
class Shift:
    """One part of a night: from its start, or from when it was taken up again, to its end. Made by `open_shift`."""

    settings: Settings
    terms: Terms
    night_id: str
    part: str
    begun: datetime
    found: CardSet
    rules: Rules
    folder: Path
    jobs: tuple[Job, ...] = ()
    refused: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.records = RecordStore(self.settings.home)
        self.ledger = Ledger(self.folder)
        self._ids = {card.id for card in self.found.cards}
        self._receipts: dict[str, Receipt] = {}
        self._ours: dict[str, bool] = {}

    def standing(self, state: SharedState, now: datetime) -> Standing:
        """How it stands now, from the disk and the shared tables."""
        newest = self.ledger.newest()
        attempts = {card.id: self._attempts(card, newest) for card in self.found.cards}
        pools = {pool for job in self.jobs for pool in job.pools}
        closed = cooldowns.of(state, pools, now=now) if pools else {}
        ours = {child.delegation_id for child in self.ledger.children() if child.part == self.part}
        return Standing(
            now=now,
            attempts=attempts,
            ended_now=[
                each.outcome
                for tries in attempts.values()
                for each in tries
                if each.outcome and each.delegation_id in ours
            ],
            spent_usd=self.spent_usd(),
            closed={pool: cooldown.until for pool, cooldown in closed.items() if cooldown.kind == "quota"},
            refused=dict(self.refused),
            broken=self.found.broken_ids,
        )

    def enter(self, state: SharedState, start: Start) -> Entered | None:
        """Give the attempt its row, record and line in the ledger. None where it is refused; the reason is noted.

        Asked again after a kill it gives the same delegation.
        """
        card = self._card(start.job)
        content = self._content(card)
        again = len(self.ledger.newest().get((card.id, content, start.number), []))
        try:
            entered = enter(state, self.records, self._request(card, start.number, again))
        except UsageError as error:
            self.refused[card.id] = f"it was refused: {error}"
            return None
        self.ledger.note(
            Child(
                card=card.id,
                content=content,
                number=start.number,
                again=again,
                delegation_id=entered.request.id,
                part=self.part,
            )
        )
        return entered

    def receipt(self, delegation_id: str) -> Receipt | None:
        """Read once it is there."""
        if delegation_id not in self._receipts:
            try:
                found = self.records.receipt(delegation_id)
            except UsageError as error:
                found = _unreadable(delegation_id, str(error), self.begun)
            if found is not None:
                self._receipts[delegation_id] = found
        return self._receipts.get(delegation_id)

    def open_children(self) -> list[str]:
        """Delegations of the night that have not ended."""
        return [name for name in self.ledger.ids() if self.receipt(name) is None]

    def name_of(self, request: DelegationRequest) -> str:
        """What the UI calls a delegation of the night; of several attempts, which one it is."""
        child = next((each for each in self.ledger.children() if each.delegation_id == request.id), None)
        attempts = self._card(child.card).fields.attempts if child and child.card in self._ids else 1
        number = f" · {child.number} of {attempts}" if child and attempts > 1 else ""
        return f"{run_name_of(request)}{number}"

    def best(self, card: FoundCard) -> Attempt | None:
        return best_of(self.attempts(card))

    def attempts(self, card: FoundCard) -> tuple[Attempt, ...]:
        """Those of this night that count: what failed in an earlier part of it is done anew."""
        return self._attempts(card, self.ledger.newest())

    def spent_usd(self) -> float:
        """What the delegations of this night are known to have cost, whichever part of it began them."""
        costs = (cost for receipt in self.own_receipts() for cost in (receipt.costs or (receipt.cost,)))
        return sum(cost.amount_usd or 0.0 for cost in costs if cost.kind in _KNOWN_COST)

    def own_receipts(self) -> list[Receipt]:
        """Those of this night's delegations that have ended: what it has to pay for."""
        found = ((name, self.receipt(name)) for name in self.ledger.ids())
        return [receipt for name, receipt in found if receipt is not None and self._is_ours(name)]

    def _is_ours(self, delegation_id: str) -> bool:
        """A card with a key of its own may have been done, and paid for, in another night."""
        if delegation_id not in self._ours:
            try:
                self._ours[delegation_id] = self.records.request(delegation_id).night_id == self.night_id
            except DelegateError:  # what it cost counts rather for this night than for none
                self._ours[delegation_id] = True
        return self._ours[delegation_id]

    def _attempts(self, card: FoundCard, newest: Mapping[Key, Sequence[Child]]) -> tuple[Attempt, ...]:
        content = self._content(card) if card.fields.build_on else card.content_hash
        last = {number: newest.get((card.id, content, number), ()) for number in range(1, card.fields.attempts + 1)}
        tries = [(same[-1], self._attempt(number, same[-1].delegation_id)) for number, same in last.items() if same]
        return tuple(each for child, each in tries if each.outcome not in _DONE_ANEW or child.part == self.part)

    def _content(self, card: FoundCard) -> str:
        """What is done: the card's content, and what it builds on."""
        below = self._built_on(card)
        return f"{card.content_hash}-{below.id}" if below else card.content_hash

    def _attempt(self, number: int, delegation_id: str) -> Attempt:
        receipt = self.receipt(delegation_id)
        if receipt is None:
            return Attempt(number, delegation_id)
        patch = receipt.patch
        return Attempt(
            number,
            delegation_id,
            "unknown" if receipt.failure_kind == "lost" else receipt.outcome,
            accepted=exit_code_of(receipt) == 0,
            changed_lines=patch.insertions + patch.deletions if patch else 0,
            changed_files=patch.files if patch else 0,
        )

    def _request(self, card: FoundCard, number: int, again: int) -> DelegationRequest:
        """Raises UsageError for a card that cannot be done (any more)."""
        key = f"{self.night_id}:{card.id}:{self._content(card)}:{number}:{again}"
        if card.fields.key is not None:
            key = card.fields.key if card.fields.attempts == 1 else f"{card.fields.key}:{number}"
        whole = card.card.model_copy(update={"key": key, **self._base(card)})
        request = admit(whole, self.settings, tool="night")
        below = self._built_on(card)
        if below is not None and below.repo != request.repo:
            raise UsageError(f"it builds on {card.fields.depends_on[0]!r}, whose change is of another repository")
        return request.model_copy(update={**self._bounds(request), "labels": _labels(card)})

    def _base(self, card: FoundCard) -> dict[str, Any]:
        """The commit that the card builds on. What left no change has left its base as it was."""
        below = self._built_on(card)
        if below is None or (below.patch is None and below.base_commit is None):
            return {}
        return {"base": ref_of(below.id, "patch") if below.patch else below.base_commit}

    def _built_on(self, card: FoundCard) -> Receipt | None:
        if not card.fields.build_on:
            return None
        best = self.best(self._card(card.fields.depends_on[0]))
        return self.receipt(best.delegation_id) if best else None

    def _card(self, name: str) -> FoundCard:
        return next(card for card in self.found.cards if card.id == name)

    def _bounds(self, request: DelegationRequest) -> dict[str, Any]:
        """It shares the night's budget, and waits for no quota that comes back when the night is over."""
        limits, patience = request.budgets, request.patience
        if self.rules.budget_usd is not None:
            smaller = min(self.rules.budget_usd, limits.per_night_usd or self.rules.budget_usd)
            limits = limits.model_copy(update={"per_night_usd": smaller})
        if self.rules.until is not None:
            left = max(0.0, (self.rules.until - datetime.now(UTC)).total_seconds())
            patience = patience.model_copy(update={"longest_wait_seconds": min(patience.longest_wait_seconds, left)})
        return {"night_id": self.night_id, "budgets": limits, "patience": patience}


def open_shift(terms: Terms, part: str, begun: datetime, settings: Settings) -> Shift:
    """Read the cards and look at each. `part` names the flow run; `begun` is when the night was to begin.

    Raises UsageError where the folder holds no card, or a time, a zone or the name is none.
    """
    night_id = night_id_of(terms, begun, settings)
    rules = rules_of(terms, begun, settings)
    found = read_cards(Path(terms.cards), settings.home.no_repository)
    shift = Shift(settings, terms, night_id, part, begun, found, rules, folder_of(settings.home, night_id))
    shift.jobs = tuple(_jobs(shift, found.cards))
    return shift


def folder_of(home: Home, night_id: str) -> Path:
    """The folder of a night, made where it is missing."""
    home.make(home.nights)
    return home.make(home.nights / night_id)


def _labels(card: FoundCard) -> tuple[str, ...]:
    """What the UI shows beside repository, model and pool: the card, and its own tags."""
    return (f"card:{card.id}", *(f"tag:{tag}" for tag in card.fields.tags))


def _jobs(shift: Shift, cards: Sequence[FoundCard]) -> Iterator[Job]:
    catalogue = Catalogue(shift.settings)
    for rank, card in enumerate(cards):
        try:
            yield job_of(card, looked_at(card.card, shift.settings, catalogue), rank)
        except UsageError as error:
            shift.refused[card.id] = f"it was refused: {error}"
            fields = card.fields
            yield Job(fields.id, fields.depends_on, fields.priority, fields.attempts, (), rank)


def _unreadable(delegation_id: str, problem: str, when: datetime) -> Receipt:
    """What stands in the place of a receipt that is damaged: nothing of the outcome is known."""
    return Receipt(
        id=delegation_id,
        outcome="failed",
        failure_kind="lost",
        failure_message=problem,
        expects="change",
        agent="unknown",
        agent_source="unknown",
        model_requested=None,
        model_used=None,
        bucket=None,
        lane=None,
        repo="unknown",
        base_commit=None,
        cost=Cost(amount_usd=None, kind="unknown"),
        created_at=when,
    )
