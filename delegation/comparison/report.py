"""The comparison as one value: models in their order, every trial, and what may be said of them in sentences."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isclose

from pydantic import Field

from delegation.card import Expects
from delegation.comparison.figures import ModelResult, TrialLine, lines_of, result_of
from delegation.comparison.intervals import LEAST_TO_TELL_APART, overlap, ranks
from delegation.comparison.trials import Trials
from delegation.receipt import Outcome
from delegation.records.store import title_of
from delegation.records.tally import price_per_verified
from delegation.records.wording import count
from delegation.values import Value

_PAIRS_TOLD = 6


class ComparisonReport(Value):
    """How a comparison stands. `is_over` tells that every trial has ended; figures are of those that have."""

    id: str
    title: str
    task: str
    repo: str
    base_commit: str | None
    expects: Expects
    verify: str | None
    repeats: int
    created_at: datetime
    written_at: datetime
    is_over: bool
    ended: int
    findings: tuple[str, ...] = Field(description="What may be said of the figures, in sentences.")
    warnings: tuple[str, ...]
    models: tuple[ModelResult, ...] = Field(description="The best first; as they were given where nothing judges.")
    trials: tuple[TrialLine, ...]
    html_path: str
    markdown_path: str

    @property
    def judges(self) -> bool:
        """Whether a verify command decides what a trial came to; nothing does where an answer is wanted."""
        return _judges(self.expects, self.verify)

    @property
    def says_something_of_each(self) -> bool:
        """Whether every model has a trial that counts, or one that came to what was asked where nothing is judged."""
        done: set[Outcome] = set() if self.judges else {"answered", "unverified"}
        return self.is_over and all(result.judged or done & result.outcomes.keys() for result in self.models)


def _judges(expects: Expects, verify: str | None) -> bool:
    return expects == "change" and verify is not None


def report_of(trials: Trials, now: datetime | None = None) -> ComparisonReport:
    """The report as it stands, from the disk alone."""
    comparison = trials.comparison
    lines = lines_of(trials)
    card = comparison.contenders[0].request.card
    judges = _judges(card.expects, card.verify)
    unranked = tuple(result_of(trials, contender, lines) for contender in comparison.contenders)
    results = _ranked(unranked) if judges else unranked
    ended = sum(line.has_ended for line in lines)
    folder = trials.settings.home.comparisons / comparison.id
    return ComparisonReport(
        id=comparison.id,
        title=title_of(card.task),
        task=card.task,
        repo=comparison.contenders[0].request.repo,
        base_commit=comparison.base_commit,
        expects=card.expects,
        verify=card.verify,
        repeats=comparison.repeats,
        created_at=comparison.created_at,
        written_at=now or datetime.now(UTC),
        is_over=ended == len(lines),
        ended=ended,
        findings=tuple(_findings(results, lines, judges=judges)),
        warnings=comparison.warnings,
        models=results,
        trials=lines,
        html_path=str(folder / "report.html"),
        markdown_path=str(folder / "report.md"),
    )


def _ranked(results: Sequence[ModelResult]) -> tuple[ModelResult, ...]:
    places = ranks({result.model: result.interval for result in results if result.interval is not None})
    told = [
        result.model_copy(update={"rank": place.text, "not_told_apart": place.not_told_apart})
        if (place := places.get(result.model))
        else result
        for result in results
    ]
    return tuple(sorted(told, key=_place))


def _place(result: ModelResult) -> tuple[bool, float, float, float]:
    """By the rate, then by how sure it is, then the quicker one; models without any trial that counts come last."""
    seconds = result.median_working_seconds
    low = result.interval[0] if result.interval else 0.0
    return result.pass_rate is None, -(result.pass_rate or 0.0), -low, float("inf") if seconds is None else seconds


def _findings(results: Sequence[ModelResult], lines: Sequence[TrialLine], *, judges: bool) -> Iterator[str]:
    ended = sum(line.has_ended for line in lines)
    if ended < len(lines):
        yield f"{ended} of {count(len(lines), 'trial')} have ended; the figures are of these."
    judged = [result for result in results if result.interval is not None]
    if judges and len(judged) > 1:
        yield from _told_apart(judged)
        yield from _price(judged)
    elif ended and not judges:
        yield "Nothing judges what this card asks for, so no model is ranked: read them side by side."
    for result in results:
        if result.substituted:
            others = sorted({line.answered_by for line in lines if line.model == result.model and line.answered_by})
            told = f"{count(result.substituted, 'trial')} of {result.model!r}"
            yield f"Another model ({', '.join(others)}) answered {told}: counted for neither."
        if judges and result.ended and not result.judged and not result.substituted:
            reasons = ", ".join(f"{number} {reason}" for reason, number in result.not_judged.items()) or "unreadable"
            yield f"Nothing can be said of {result.model!r}: none of its trials counts ({reasons})."


def _told_apart(judged: Sequence[ModelResult]) -> Iterator[str]:
    """`judged` is in order, so of a pair that is told apart the first is the better one."""
    pairs = [
        (better, worse)
        for place, better in enumerate(judged)
        for worse in judged[place + 1 :]
        if better.interval and worse.interval and not overlap(better.interval, worse.interval)
    ]
    if not pairs:
        names = _names(judged)
        yield f"Not told apart: {names}. Their intervals overlap, so the difference may be chance."
        if max(result.judged for result in judged) < LEAST_TO_TELL_APART:
            yield (
                f"With fewer than {LEAST_TO_TELL_APART} trials that count, even all against none is not told apart: "
                "give more repeats."
            )
        return
    for better, worse in pairs[:_PAIRS_TOLD]:
        yield f"{better.model!r} passes more often than {worse.model!r}: their intervals do not overlap."
    if len(pairs) > _PAIRS_TOLD:
        yield f"Told apart as well: {count(len(pairs) - _PAIRS_TOLD, 'further pair')}; see the ranks."
    first = [result for result in judged if result.rank and result.rank.split("-")[0] == "1"]
    if len(first) > 1:
        yield f"Not told apart from the best: {_names(first)}."


def _price(judged: Sequence[ModelResult]) -> Iterator[str]:
    """Only costs of one kind are compared, and only where each is known."""
    verified = [result for result in judged if result.verified]
    kinds = {result.cost_kind for result in verified}
    if len(verified) < 2:
        return
    if len(kinds) == 1 and all(result.usd_per_verified is not None for result in verified):
        prices = {result.model: result.usd_per_verified or 0.0 for result in verified}
        least = [result for result in verified if isclose(prices[result.model], min(prices.values()))]
        if len(least) == len(verified):
            yield f"A verified result costs the same with {_names(least)}: {price_per_verified(least[0])}."
        else:
            yield f"Cheapest for one verified result: {_names(least)} with {price_per_verified(least[0])}."
    elif kinds != {"flat_plan"}:
        yield "What a verified result costs is not compared: it is unknown, or of another kind, for some of them."


def _names(results: Sequence[ModelResult]) -> str:
    names = [repr(result.model) for result in results]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
