"""What a night would do with a folder of cards: the order, the models and their pools. Nothing is run or written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import Field

from delegation.admission import admit
from delegation.card import Card, Lane
from delegation.cards import CardSet, FoundCard, Problem
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
    budgets = [look.found.fields.budget_usd for look in good for _ in range(look.found.fields.attempts)]
    given = [budget for budget in budgets if budget is not None]
    return NightPlan(
        source=found.source,
        cards=tuple(look.planned() for look in good),
        problems=(*found.problems, *(look for look in looks if isinstance(look, Problem))),
        passed_over=found.passed_over,
        pools=tuple(_pools(good, settings)),
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

    def planned(self) -> PlannedCard:
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
            yield Problem(file=found.file, line=found.line, key=None, message=str(error), card=found.id)


def _pools(looks: Sequence[_Look], settings: Settings) -> Iterator[PoolLoad]:
    counts: dict[tuple[str, str], int] = {}
    for look in looks:
        key = look.request.endpoint.bucket, look.request.card.queue
        counts[key] = counts.get(key, 0) + look.found.fields.attempts
    for (bucket, queue), count in sorted(counts.items()):
        slots = slots_of(settings, bucket)
        yield PoolLoad(bucket=bucket, queue=queue_name_of(bucket, queue), delegations=count, at_a_time=slots)
