"""One night's work: its cards, the delegations they became, and how it stands. Knows nothing of who runs them."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
from delegation.night.costs import sum_of
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

_UNKNOWN = Cost(amount_usd=None, kind="unknown")
_DONE_ANEW = ("failed", "cancelled", "unknown")


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
        self._cards = {card.id: card for card in self.found.cards}
        self._receipts: dict[str, Receipt] = {}
        self._ours: dict[str, bool] = {}

    def standing(self, state: SharedState, now: datetime) -> Standing:
        """How it stands now, from the disk and the shared tables."""
        attempts = self.attempts()
        pools = {pool for job in self.jobs for pool in job.pools}
        closed = cooldowns.of(state, pools, now=now) if pools else {}
        begun = {child.delegation_id for child in self.ledger.children() if child.part == self.part}
        ours = {name for name in begun if self.is_ours(name)}
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
        card = self._cards[start.job]
        below = self._built_on(card)
        content = _content(card, below)
        again = len(self.ledger.newest().get((card.id, content, start.number), []))
        try:
            entered = enter(state, self.records, self._request(card, below, start.number, again))
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

    def done_elsewhere(self, delegation_id: str) -> str | None:
        """For one that is not of this night: who began it, in a few words."""
        if self.is_ours(delegation_id):
            return None
        night_id = self.records.request(delegation_id).night_id
        return f"in {night_id}" if night_id else "outside of any night"

    def name_of(self, request: DelegationRequest) -> str:
        """What the UI calls a delegation of the night; of several attempts, which one it is."""
        child = next((each for each in self.ledger.children() if each.delegation_id == request.id), None)
        attempts = self._cards[child.card].fields.attempts if child and child.card in self._cards else 1
        number = f" · {child.number} of {attempts}" if child and attempts > 1 else ""
        return f"{run_name_of(request)}{number}"

    def attempts(self, cards: Iterable[FoundCard] | None = None) -> dict[str, tuple[Attempt, ...]]:
        """Of these cards (all of them where none are given) and those that they build on, by id: the attempts of this
        night that count. What failed in an earlier part of it is done anew."""
        newest = self.ledger.newest()
        known: dict[str, tuple[Attempt, ...]] = {}
        for card in self.found.cards if cards is None else cards:
            for each in self._unknown_below(card, known):
                known[each.id] = self._attempts(each, _content(each, self._best_below(each, known)), newest)
        return known

    def spent_usd(self) -> float:
        """What the delegations of this night are known to have cost, whichever part of it began them."""
        costs = sum_of(self.own_receipts())
        return (costs.reported_usd or 0.0) + (costs.estimated_usd or 0.0)

    def own_receipts(self) -> list[Receipt]:
        """Those of this night's delegations that have ended: what it has to pay for."""
        found = ((name, self.receipt(name)) for name in self.ledger.ids())
        return [receipt for name, receipt in found if receipt is not None and self.is_ours(name)]

    def is_ours(self, delegation_id: str) -> bool:
        """Whether this night began it, pays for it and may end it. A card with a key of its own may have been done in
        another night, or by hand."""
        if delegation_id not in self._ours:
            try:
                self._ours[delegation_id] = self.records.request(delegation_id).night_id == self.night_id
            except DelegateError:  # what it cost counts rather for this night than for none
                self._ours[delegation_id] = True
        return self._ours[delegation_id]

    def _unknown_below(self, card: FoundCard, known: Container[str]) -> Iterator[FoundCard]:
        """The card and those that it builds on, the lowest first. Without recursion: such a row may be long."""
        row: list[FoundCard] = []
        each: FoundCard | None = card
        while each is not None and each.id not in known:
            row.append(each)
            each = self._card_below(each)
        return reversed(row)

    def _card_below(self, card: FoundCard) -> FoundCard | None:
        """The card that it builds on; None where it builds on none, and where that one cannot be read."""
        return self._cards.get(card.fields.depends_on[0]) if card.fields.build_on else None

    def _best_below(self, card: FoundCard, attempts: Mapping[str, Sequence[Attempt]]) -> Receipt | None:
        below = self._card_below(card)
        best = best_of(attempts[below.id]) if below is not None else None
        return self.receipt(best.delegation_id) if best else None

    def _built_on(self, card: FoundCard) -> Receipt | None:
        """What the best attempt of the card below came to."""
        return self._best_below(card, self.attempts([card]))

    def _attempts(self, card: FoundCard, content: str, newest: Mapping[Key, Sequence[Child]]) -> tuple[Attempt, ...]:
        last = {number: newest.get((card.id, content, number), ()) for number in range(1, card.fields.attempts + 1)}
        tries = [(same[-1], self._attempt(number, same[-1].delegation_id)) for number, same in last.items() if same]
        return tuple(each for child, each in tries if each.outcome not in _DONE_ANEW or child.part == self.part)

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

    def _request(self, card: FoundCard, below: Receipt | None, number: int, again: int) -> DelegationRequest:
        """Raises UsageError for a card that cannot be done (any more)."""
        key = f"{self.night_id}:{card.id}:{_content(card, below)}:{number}:{again}"
        if card.fields.key is not None:
            key = card.fields.key if card.fields.attempts == 1 else f"{card.fields.key}:{number}"
        whole = card.card.model_copy(update={"key": key, **_base(below)})
        request = admit(whole, self.settings, tool="night")
        if below is not None and below.repo != request.repo:
            raise UsageError(f"it builds on {card.fields.depends_on[0]!r}, whose change is of another repository")
        return request.model_copy(update={**self._bounds(request), "labels": _labels(card)})

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


def _content(card: FoundCard, below: Receipt | None) -> str:
    """What is done: the card's content, and what it builds on."""
    return f"{card.content_hash}-{below.id}" if below else card.content_hash


def _base(below: Receipt | None) -> dict[str, Any]:
    """The commit that a card builds on. What left no change has left its base as it was."""
    if below is None or (below.patch is None and below.base_commit is None):
        return {}
    return {"base": ref_of(below.id, "patch") if below.patch else below.base_commit}


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
        cost=_UNKNOWN,
        costs=(_UNKNOWN,),  # it may have asked a model: what that cost is not known, which is not nothing
        created_at=when,
    )
