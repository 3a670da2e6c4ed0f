"""Making the plan of a comparison: what is compared fairly, with which requests, and what is said before it begins."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from delegation.admission import admit
from delegation.card import Card
from delegation.comparison.intervals import LEAST_TO_TELL_APART
from delegation.comparison.plan import Comparison, Contender, Trial
from delegation.errors import UsageError
from delegation.ids import COMPARISON_PREFIX, new_id
from delegation.models.catalogue import Catalogue
from delegation.notification.notice import Hook
from delegation.request import DelegationRequest
from delegation.settings import Settings

IN_FLIGHT = 4
_TOOL = "compare"
_MOST_MODELS, _MOST_REPEATS, MOST_TRIALS = 20, 50, 200


def plan_of(
    card: Card,
    models: Sequence[str],
    settings: Settings,
    *,
    repeats: int = 1,
    in_flight: int = IN_FLIGHT,
    notify: Hook | None = None,
    now: datetime | None = None,
) -> Comparison:
    """The comparison of a card. Every model is pinned: none of another may take its place, and all begin at one commit.

    Raises UsageError (and has written nothing) for what cannot be compared: fewer than two models, a model that is
    unknown or has no key, a base that would be another for each trial, and whatever admission refuses.
    """
    moment = now or datetime.now(UTC)
    names = _names(models)
    _check_numbers(len(names), repeats, in_flight)
    _check_card(card)
    catalogue = Catalogue(settings)
    looks = [_admitted(card, name, settings, catalogue, only_look=True) for name in names]
    _check_isolation(looks[0])
    comparison_id, base_commit = _id_of(card.key, moment), looks[0].base_commit
    pinned = card.model_copy(update={"base": base_commit or card.base})
    requests = [_admitted(pinned, name, settings, catalogue) for name in names]
    contenders = tuple(
        Contender(model=name, request=_levelled(request, requests, comparison_id))
        for name, request in zip(names, requests, strict=True)
    )
    return Comparison(
        id=comparison_id,
        card=card,
        repeats=repeats,
        in_flight=in_flight,
        base_commit=base_commit,
        contenders=contenders,
        trials=tuple(_trials(contenders, repeats, moment)),
        warnings=tuple(dict.fromkeys(_warnings(contenders, repeats, str(settings.home.no_repository.resolve())))),
        notify=notify,
        created_at=moment,
    )


def _names(models: Sequence[str]) -> list[str]:
    names = [name.strip() for given in models for name in given.split(",")]
    names = [name for name in names if name]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"model {name!r} is named twice: name each once, and say with repeats how often it works")
    return names


def _check_numbers(models: int, repeats: int, in_flight: int) -> None:
    if models < 2:
        raise UsageError(f"a comparison needs two models or more, and {models} was given: name them as a,b,c")
    if models > _MOST_MODELS:
        raise UsageError(f"{models} models are too many for one comparison: at most {_MOST_MODELS}")
    for name, number, most in (("repeats", repeats, _MOST_REPEATS), ("in_flight", in_flight, MOST_TRIALS)):
        if not 1 <= number <= most:
            raise UsageError(f"{name} must be from 1 to {most}, not {number}")
    if models * repeats > MOST_TRIALS:
        raise UsageError(
            f"{models} models with {repeats} repeats are {models * repeats} delegations: at most {MOST_TRIALS} in one "
            "comparison"
        )


def _check_card(card: Card) -> None:
    if card.include_dirty:
        raise UsageError(
            "include_dirty cannot be compared: each trial would carry what is uncommitted when it begins. "
            "Commit it to a branch, and give that as the base"
        )
    if card.isolation == "in_place":
        raise UsageError("isolation 'in_place' cannot be compared: the trials would work on each other's changes")
    if card.provider_url is not None:
        raise UsageError("provider_url names one provider's model: put the models to be compared into the catalogue")


def _check_isolation(request: DelegationRequest) -> None:
    if request.is_git and request.card.isolation != "worktree":
        raise UsageError(
            f"isolation {request.card.isolation!r} cannot be compared: each trial would carry what is uncommitted when "
            "it begins. Leave it out: each works in a worktree of its own"
        )


def _admitted(
    card: Card, model: str, settings: Settings, catalogue: Catalogue, *, only_look: bool = False
) -> DelegationRequest:
    wanted = card.model_copy(update={"model": model, "key": None})
    return admit(wanted, settings, tool=_TOOL, catalogue=catalogue, only_look=only_look)


def _levelled(
    request: DelegationRequest, all_requests: Sequence[DelegationRequest], comparison_id: str
) -> DelegationRequest:
    """Pinned, a child of the comparison, and with as many turns as the others: local models have fewer by default."""
    most = max(each.limits.max_turns for each in all_requests)
    limits = request.limits.model_copy(update={"max_turns": most})
    return request.model_copy(update={"chain": (), "parent_id": comparison_id, "limits": limits})


def _id_of(key: str | None, now: datetime) -> str:
    """The same for the same key; else a new one that tells when it was made."""
    if key is not None:
        return f"{COMPARISON_PREFIX}{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:20]}"
    return f"{COMPARISON_PREFIX}{new_id('dg', now).partition('-')[2]}"


def _trials(contenders: Sequence[Contender], repeats: int, moment: datetime) -> Iterator[Trial]:
    """Each id has a millisecond of its own, so that they sort in this order and none is there twice."""
    places = ((repeat, contender) for repeat in range(1, repeats + 1) for contender in contenders)
    for place, (repeat, contender) in enumerate(places):
        stamp = new_id("dg", moment + timedelta(milliseconds=place)).partition("-")[2]
        prefix = contender.request.id.partition("-")[0]
        yield Trial(model=contender.model, repeat=repeat, delegation_id=f"{prefix}-{stamp}")


def _warnings(contenders: Sequence[Contender], repeats: int, no_repository: str) -> Iterator[str]:
    requests = [each.request for each in contenders]
    card, place = requests[0].card, requests[0].repo
    if card.expects == "change" and card.verify is None:
        yield "the card has no verify command, so nothing judges the changes: they are only shown side by side"
    elif card.expects == "change" and repeats < LEAST_TO_TELL_APART:
        yield (
            f"with {repeats} of each, even all against none is not told apart: "
            f"{LEAST_TO_TELL_APART} are needed for that, and more for less of a difference"
        )
    if not requests[0].is_git and place != no_repository:
        yield f"{place!r} is no git repository: each trial copies it as it then is, so leave it alone meanwhile"
    yield from _same_twice(contenders)
    if len({request.network for request in requests}) > 1:
        without = ", ".join(repr(each.model) for each in contenders if not each.request.network)
        yield f"the shells of {without} have no network and the others' have: say `network` in the card to level it"
    for each in contenders:
        for said in each.request.warnings:
            of_all = all(said in request.warnings for request in requests)
            yield said if of_all else f"{each.model}: {said}"


def _same_twice(contenders: Sequence[Contender]) -> Iterator[str]:
    seen: dict[tuple[str, str], str] = {}
    for each in contenders:
        endpoint = each.request.endpoint
        earlier = seen.setdefault((endpoint.base_url, endpoint.model), each.model)
        if earlier != each.model:
            yield f"{earlier!r} and {each.model!r} are the same model at the same endpoint"
