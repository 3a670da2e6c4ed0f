"""Looking at one content under the command: once, and again where the first look may be mere bad luck."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from delegation.receipt import CommandRun
from delegation.verdict.comparison import differing, needs_rerun
from delegation.verdict.conditions import Conditions
from delegation.verdict.observed import Observed, confirmed, only, overlaid
from delegation.verdict.runners import narrowed
from delegation.verdict.trial import Trial, perform

Prepare = Callable[[Path], None]


@dataclass(frozen=True)
class Seen:
    """What was observed, and the runs it comes from."""

    observed: Observed
    trials: tuple[Trial, ...]

    @property
    def setup_exit(self) -> int | None:
        return self.trials[0].setup_exit

    @property
    def narrowed(self) -> bool:
        """Whether the second look was at some tests alone."""
        return any(trial.narrowed for trial in self.trials)

    @property
    def rewritten(self) -> tuple[str, ...]:
        """Files of tests that the command wrote over while it ran."""
        return tuple(sorted({path for trial in self.trials for path in trial.rewritten}))


def seen_base(conditions: Conditions) -> Seen:
    """The base's result. Red is looked at again: the failing tests alone, then whole unless all fail again."""
    first = perform(conditions, "base")
    if first.run.verdict != "failed":
        return _seen(first)
    names = differing(None, first.run)
    again = _again(conditions, "base-again", first, names, None)
    if again.narrowed and not confirmed(names, again.run):
        again = perform(conditions, "base-again")
    return _seen(first, again)


def seen_candidate(conditions: Conditions, label: str, prepare: Prepare, base: Observed) -> Seen:
    """The candidate's result. What fails on it and was not seen to fail on the base is run again, alone if possible."""
    first = perform(conditions, label, prepare)
    if not needs_rerun(base, first.run):
        return _seen(first)
    return _seen(first, _again(conditions, f"{label}-again", first, differing(base, first.run), prepare))


def seen_restored(conditions: Conditions, prepare: Prepare, base: Observed) -> Seen:
    """The candidate with the base's judges: only the base's tests count, and no broken file stops them."""
    run = partial(perform, conditions, prepare=prepare, go_on_after_errors=True)
    first = _of_the_base(run("restored"), base)
    if not needs_rerun(base, first.run):
        return _seen(first)
    return _seen(first, _of_the_base(run("restored-again"), base))


def seen_once_more(conditions: Conditions, prepare: Prepare, seen: Seen) -> Seen:
    """A test that failed in the whole run and passed alone: a third, whole run tells the unlucky from the dependent."""
    third = perform(conditions, "candidate-whole", prepare)
    trials = (*seen.trials, third)
    first = seen.observed.first
    if third.run.verdict == "failed" and seen.observed.flaky & Observed(first, third.run).failing:
        return Seen(Observed(first, third.run), trials)
    return Seen(seen.observed, trials)


def _again(conditions: Conditions, label: str, first: Trial, names: frozenset[str], prepare: Prepare | None) -> Trial:
    trial = perform(conditions, label, prepare, alter=partial(narrowed, names=names))
    if not trial.narrowed:
        return trial
    if trial.run.verdict == "none":  # a command with a choice of its own may leave nothing to run
        return perform(conditions, label, prepare)
    return replace(trial, run=overlaid(first.run, trial.run))


def _seen(first: Trial, again: Trial | None = None) -> Seen:
    trials = (first, again) if again else (first,)
    return Seen(Observed(first.run, again.run if again else None), trials)


def _of_the_base(trial: Trial, base: Observed) -> Trial:
    """The trial as if only tests that the base has, or files it has in a state that could not be loaded, were in it."""
    tests = frozenset(base.first.tests or {})
    is_known: Callable[[str], bool] = lambda name: not tests or name in tests or name.split("::")[0] in tests  # noqa: E731
    run: CommandRun = only(trial.run, is_known)
    return replace(trial, run=run)
