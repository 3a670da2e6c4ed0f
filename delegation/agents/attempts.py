"""Which model did what part of a run, read from its log."""

from collections.abc import Sequence
from datetime import datetime

from delegation.agents.spending import Spending
from delegation.agents.trajectory import Event
from delegation.receipt import Attempt, Cost, Usage
from delegation.request import Endpoint


def attempts_in(events: Sequence[Event], chain: Sequence[Endpoint]) -> tuple[Attempt, ...]:
    """One entry for each model that was at work, in order. `chain` holds the models that may occur, the first one
    first."""
    parts: list[list[Event]] = [[]]
    for event in own_events(events):
        parts[-1].append(event)
        if event["type"] == "handover":
            parts.append([])
    first = next((str(event["alias"]) for event in parts[0] if event["type"] == "header"), chain[0].alias)
    aliases = [first, *(str(part[-1]["to"]) for part in parts[:-1])]
    return tuple(_attempt(alias, part, chain) for alias, part in zip(aliases, parts, strict=True) if part)


def model_at_work(events: Sequence[Event], chain: Sequence[Endpoint]) -> str | None:
    """The alias that has the work now; None before any began."""
    own = own_events(events)
    begun = [event for event in own if event["type"] in ("header", "handover")]
    if begun:
        return str(begun[-1].get("to") or begun[-1]["alias"])
    return chain[0].alias if own else None


def own_events(events: Sequence[Event]) -> Sequence[Event]:
    """Those of this delegation: what stands before a `continued` is of the one that it goes on with."""
    since = max((place for place, event in enumerate(events) if event["type"] == "continued"), default=-1)
    return events[since + 1 :]


def _attempt(alias: str, part: Sequence[Event], chain: Sequence[Endpoint]) -> Attempt:
    endpoint = next((each for each in chain if each.alias == alias), None)
    asked = [event for event in part if event["type"] in ("reply", "wasted")]
    spending = Spending()
    for event in asked:
        spending = spending.plus(Usage(**event["usage"]), Cost(**event["cost"]) if event["cost"] else None)
    last = part[-1]
    return Attempt(
        alias=alias,
        model=endpoint.model if endpoint else alias,
        bucket=endpoint.bucket if endpoint else "unknown",
        started_at=datetime.fromisoformat(part[0]["time"]),
        ended_at=datetime.fromisoformat(last["time"]),
        turns=sum(event["type"] == "reply" for event in asked),
        failure_kind=last.get("failure_kind"),
        message=last.get("failure_message"),
        usage=spending.usage,
        cost=spending.cost,
        files=tuple(last["files"]) if last["type"] == "handover" else None,
    )
