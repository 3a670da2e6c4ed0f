"""What a night would do with a folder of cards: the order, the models and their pools. Nothing is run or written."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import Field

from delegation.admission import admit
from delegation.card import Card, Lane
from delegation.cards import CardSet, FoundCard, Problem
from delegation.cards.found import from_top_to_bottom
from delegation.errors import DelegateError
from delegation.models.catalogue import Catalogue
from delegation.night.order import ordered
from delegation.night.values import Job
from delegation.records.labels import queue_name_of
from delegation.records.store import title_of
from delegation.request import DelegationRequest
from delegation.settings import Settings
from delegation.submitting import slots_of
from delegation.values import Value

_MAY_BE_LEFT_OUT = tuple(name for name in Card.model_fields if name not in ("task", "repo"))


class PlannedCard(Value):
    """One card as it would be done."""

    id: str
    place: str
    title: str
    repo: str
    base_commit: str | None
    model: str
    bucket: str
    lane: Lane
    verify: str | None
    attempts: int
    priority: int
    depends_on: tuple[str, ...]
    build_on: bool
    budget_usd: float | None = Field(description="Of one attempt.")
    review_by: date | None
    tags: tuple[str, ...]
    warnings: tuple[str, ...]
    passed_over: str | None = Field(default=None, description="Why it does not run though nothing is wrong with it.")


class PoolLoad(Value):
    """What waits for one pool of models: so many delegations, so many of them at a time."""

    bucket: str
    queue: str
    delegations: int
    at_a_time: int


class NightPlan(Value):
    """All cards in the order of the night, and what is wrong with those that would not run."""

    source: str
    cards: tuple[PlannedCard, ...]
    problems: tuple[Problem, ...]
    passed_over: tuple[str, ...]
    pools: tuple[PoolLoad, ...]
    budget_usd: float | None = Field(description="The most that cards with a budget may cost together; null without.")
    without_budget: int = Field(description="Delegations whose card has no budget of its own.")


def plan_of(found: CardSet, settings: Settings) -> NightPlan:
    """The plan. A card that could not be admitted is one of the problems."""
    looks = list(_looks(found.cards, settings))
    good = [look for look in looks if isinstance(look, _Look)]
    order = {job.id: place for place, job in enumerate(ordered([look.job(rank) for rank, look in enumerate(good)]))}
    good.sort(key=lambda look: order[look.found.id])
    problems = from_top_to_bottom((*found.problems, *(look for look in looks if isinstance(look, Problem))))
    lost = _lost(good, {problem.card for problem in problems if problem.card})
    at_work = [look for look in good if look.found.id not in lost]
    budgets = [look.found.fields.budget_usd for look in at_work for _ in range(look.found.fields.attempts)]
    given = [budget for budget in budgets if budget is not None]
    return NightPlan(
        source=found.source,
        cards=tuple(look.planned(lost.get(look.found.id)) for look in good),
        problems=problems,
        passed_over=found.passed_over,
        pools=tuple(_pools(at_work, settings)),
        budget_usd=sum(given) if given else None,
        without_budget=len(budgets) - len(given),
    )


def job_of(found: FoundCard, request: DelegationRequest, rank: int) -> Job:
    """The card as the scheduler sees it."""
    pools = dict.fromkeys(endpoint.quota_pool for endpoint in (request.endpoint, *request.chain))
    fields = found.fields
    return Job(fields.id, fields.depends_on, fields.priority, fields.attempts, tuple(pools), rank)


@dataclass(frozen=True)
class _Look:
    found: FoundCard
    request: DelegationRequest

    def job(self, rank: int) -> Job:
        return job_of(self.found, self.request, rank)

    def planned(self, passed_over: str | None) -> PlannedCard:
        fields, request = self.found.fields, self.request
        return PlannedCard(
            id=fields.id,
            place=self.found.place,
            title=title_of(fields.task),
            repo=request.repo,
            base_commit=request.base_commit,
            model=request.endpoint.alias,
            bucket=request.endpoint.bucket,
            lane=request.endpoint.lane,
            verify=request.card.verify,
            attempts=fields.attempts,
            priority=fields.priority,
            depends_on=fields.depends_on,
            build_on=fields.build_on,
            budget_usd=fields.budget_usd,
            review_by=fields.review_by,
            tags=fields.tags,
            warnings=request.warnings,
            passed_over=passed_over,
        )


def looked_at(card: Card, settings: Settings, catalogue: Catalogue) -> DelegationRequest:
    """The card as it would be admitted; nothing is written. Raises what admission raises."""
    return admit(card, settings, tool="night", catalogue=catalogue, only_look=True)


def _looks(cards: Sequence[FoundCard], settings: Settings) -> Iterator[_Look | Problem]:
    catalogue = Catalogue(settings)
    for found in cards:
        try:
            yield _Look(found, looked_at(found.card, settings, catalogue))
        except DelegateError as error:
            yield from _wrong_with(found, str(error), settings, catalogue)


def _wrong_with(found: FoundCard, message: str, settings: Settings, catalogue: Catalogue) -> Iterator[Problem]:
    """Admission names the first thing that cannot be had. It is the field without which it says something else; the
    card without that is looked at again, for what is wrong besides."""
    card, left = found.card, [name for name in _MAY_BE_LEFT_OUT if name in found.fields.model_fields_set]
    told = 0
    while message:
        without = {name: _refusal(_without(card, name), settings, catalogue) for name in left}
        helps = sorted((name for name in left if without[name] != message), key=lambda name: without[name] is not None)
        if not helps:
            break
        told += 1
        yield found.problem(message, helps[0])
        card, message = _without(card, helps[0]), without[helps[0]] or ""
        left.remove(helps[0])
    if not told:
        yield found.problem(message, "repo" if repr(found.fields.repo) in message else None)


def _without(card: Card, name: str) -> Card:
    return card.model_copy(update={name: Card.model_fields[name].get_default()})


def _refusal(card: Card, settings: Settings, catalogue: Catalogue) -> str | None:
    try:
        looked_at(card, settings, catalogue)
    except DelegateError as error:
        return str(error)
    return None


def _lost(looks: Sequence[_Look], broken: Collection[str]) -> dict[str, str]:
    """The cards that wait for one that does not run, directly or through others, each with the reason. `looks` are in
    the order of the night, in which a card comes after those that it waits for."""
    reasons: dict[str, str] = {}
    for look in looks:
        gone = next((name for name in look.found.fields.depends_on if name in broken or name in reasons), None)
        if gone is not None:
            reasons[look.found.id] = f"{gone} cannot run"
    return reasons


def _pools(looks: Sequence[_Look], settings: Settings) -> Iterator[PoolLoad]:
    counts: dict[tuple[str, str], int] = {}
    for look in looks:
        key = look.request.endpoint.bucket, look.request.card.queue
        counts[key] = counts.get(key, 0) + look.found.fields.attempts
    for (bucket, queue), count in sorted(counts.items()):
        slots = slots_of(settings, bucket)
        yield PoolLoad(bucket=bucket, queue=queue_name_of(bucket, queue), delegations=count, at_a_time=slots)
