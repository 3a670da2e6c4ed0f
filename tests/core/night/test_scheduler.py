"""What a night starts next, over plain values; whole nights are played through with every kind of outcome."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegation.errors import UsageError
from delegation.night.order import ordered
from delegation.night.scheduler import best_of, decide
from delegation.night.values import Attempt, Decision, Job, Rules, Standing, Start

NOW = datetime(2026, 5, 1, 1, 0, tzinfo=UTC)
UNTIL = NOW + timedelta(hours=5)
OUTCOMES = ("verified", "refuted", "unverified", "no_change", "answered", "failed", "cancelled", "unknown")


def ended(number: int, outcome: str = "verified", *, lines: int = 1, files: int = 1) -> Attempt:
    return Attempt(number, f"dg-{number}", outcome, outcome in ("verified", "answered"), lines, files)  # type: ignore[arg-type]


def standing(**given: object) -> Standing:
    return replace(Standing(NOW), **given)  # type: ignore[arg-type]


def names(decision: Decision) -> list[str]:
    return [start.job for start in decision.start]


def test_the_higher_priority_goes_first_and_what_it_waits_for_goes_before():
    jobs = [Job("plain", rank=0), Job("base", rank=1), Job("urgent", ("base",), priority=9, rank=2), Job("x", rank=3)]
    assert [job.id for job in ordered(jobs)] == ["base", "urgent", "plain", "x"]


def test_jobs_that_wait_for_each_other_are_refused_by_name():
    jobs = [Job("a", ("c",)), Job("b", ("a",)), Job("c", ("b",)), Job("free"), Job("tail", ("a",))]
    with pytest.raises(UsageError, match="in a circle: a -> c -> b -> a"):
        decide(jobs, Rules(), standing())


def test_a_long_chain_and_a_diamond_are_ordered_without_recursion():
    chain = [Job(f"n{n}", (f"n{n + 1}",) if n < 3000 else (), priority=n % 7) for n in range(3001)]
    assert [job.id for job in ordered(chain)] == [f"n{n}" for n in range(3000, -1, -1)]
    diamond = [Job("d", ("b", "c")), Job("b", ("a",)), Job("c", ("a",)), Job("a")]
    assert [job.id for job in ordered(diamond)] == ["a", "b", "c", "d"]


def test_no_more_are_begun_than_may_be_in_flight():
    jobs = [Job(name, rank=rank) for rank, name in enumerate("abcd")]
    one_runs = {"a": [Attempt(1, "dg-1")]}
    assert names(decide(jobs, Rules(in_flight=3), standing(attempts=one_runs))) == ["b", "c"]


def test_all_attempts_of_a_job_are_begun_and_dependants_wait_for_the_last():
    jobs = [Job("a", attempts=3), Job("b", ("a",))]
    first = decide(jobs, Rules(), standing())
    assert first.start == (Start("a", 1), Start("a", 2), Start("a", 3))
    two = {"a": [ended(1), ended(2), Attempt(3, "dg-3")]}
    assert decide(jobs, Rules(), standing(attempts=two)) == Decision()
    three = {"a": [ended(1, "refuted"), ended(2), ended(3, "failed")]}
    assert names(decide(jobs, Rules(), standing(attempts=three))) == ["b"]


@pytest.mark.parametrize("outcome", ["refuted", "no_change", "failed", "cancelled", "unknown"])
def test_dependants_of_what_was_not_accepted_are_passed_over_with_the_reason_and_theirs_too(outcome: str):
    jobs = [Job("a"), Job("b", ("a",)), Job("c", ("b",)), Job("other")]
    done = {"a": [ended(1, outcome)], "other": [ended(1)]}
    decision = decide(jobs, Rules(), standing(attempts=done))
    assert decision.passed_over == {
        "b": f"it depends on 'a', which ended as {outcome.replace('_', ' ')}",
        "c": "it depends on 'b', which did not begin",
    }
    assert decision.is_over


def test_dependants_of_broken_and_refused_cards_are_passed_over():
    jobs = [Job("a", ("broken",)), Job("b"), Job("c", ("b",))]
    refused = {"b": "model 'x' is not known"}
    decision = decide(jobs, Rules(), standing(broken=frozenset({"broken"}), refused=refused))
    assert decision.passed_over == {
        "a": "it depends on 'broken', whose card cannot be read",
        "b": "model 'x' is not known",
        "c": "it depends on 'b', which did not begin",
    }
    assert decision.is_over


def test_at_the_hour_nothing_new_begins_and_what_runs_is_waited_for():
    jobs = [Job("a"), Job("b"), Job("c", ("a",))]
    running = {"a": [Attempt(1, "dg-1")]}
    late = standing(now=UNTIL, attempts=running)
    decision = decide(jobs, Rules(until=UNTIL), late)
    assert (decision.start, decision.stopped, decision.is_over) == ((), "time", False)
    assert set(decision.passed_over) == {"b", "c"}
    assert decide(jobs, Rules(until=UNTIL), replace(late, attempts={"a": [ended(1)]})).is_over


def test_a_budget_that_is_used_up_stops_the_night():
    assert decide([Job("a")], Rules(budget_usd=2), standing(spent_usd=1.99)).start
    stopped = decide([Job("a")], Rules(budget_usd=2), standing(spent_usd=2.0))
    assert (stopped.stopped, stopped.is_over) == ("budget", True)
    assert stopped.passed_over == {"a": "the night's budget of 2 USD was used up before it began"}


def test_too_many_failures_stop_the_night_but_not_refuted_changes_or_the_first_few():
    rules = Rules(error_rate=0.5, errors_after=4)
    for outcomes, expected in (
        (["failed"] * 3, None),
        (["failed"] * 4, "errors"),
        (["failed", "unknown", "failed", "verified"], "errors"),
        (["failed", "failed", "verified", "verified"], None),
        (["refuted"] * 9, None),
    ):
        assert decide([Job("a")], rules, standing(ended_now=outcomes)).stopped == expected
    assert decide([Job("a")], Rules(error_rate=None), standing(ended_now=["failed"] * 99)).stopped is None


def test_a_closed_quota_is_waited_for_if_it_opens_before_the_end_and_others_go_on():
    jobs = [Job("a", pools=("p",)), Job("b", pools=("p", "q")), Job("c"), Job("d", ("a",))]
    opens = NOW + timedelta(hours=1)
    waiting = decide(jobs, Rules(until=UNTIL), standing(closed={"p": opens}))
    assert (names(waiting), waiting.look_again, waiting.passed_over) == (["b", "c"], opens, {})
    assert not waiting.is_over
    assert "a" in names(decide(jobs, Rules(until=UNTIL), standing(now=opens, closed={"p": opens})))


def test_a_quota_that_opens_after_the_end_is_not_waited_for():
    jobs = [Job("a", pools=("p",)), Job("b", ("a",))]
    decision = decide(jobs, Rules(until=UNTIL), standing(closed={"p": UNTIL}))
    assert decision.is_over
    assert decision.passed_over == {
        "a": "its quota comes back at 2026-05-01 06:00 UTC, when the night is over",
        "b": "it depends on 'a', which did not begin",
    }
    assert decide(jobs, Rules(), standing(closed={"p": UNTIL})).look_again == UNTIL


def test_the_best_attempt_is_chosen_by_verdict_then_by_size_then_by_age():
    assert best_of([]) is None
    assert best_of([Attempt(1, "dg-1")]) is None
    tries = [ended(1, "refuted", lines=1), ended(2, lines=9), ended(3, lines=4, files=2), ended(4, lines=4, files=1)]
    assert best_of([*tries, ended(5, lines=4, files=1), Attempt(6, "dg-6")]) == tries[3]
    assert best_of([ended(1, "failed", lines=0), ended(2, "refuted", lines=50)]) == ended(2, "refuted", lines=50)


@st.composite
def job_sets(draw: st.DrawFn) -> list[Job]:
    count = draw(st.integers(1, 9))
    jobs = [
        Job(
            f"j{number}",
            tuple(f"j{n}" for n in sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)))) if number else (),
            draw(st.integers(-2, 2)),
            draw(st.integers(1, 3)),
            draw(st.sampled_from([(), ("p",), ("p", "q")])),
            number,
        )
        for number in range(count)
    ]
    return draw(st.permutations(jobs))


@dataclass
class Night:
    """A night played through; `chance` chooses what happens next, and the machine may be killed at any moment."""

    jobs: Sequence[Job]
    rules: Rules
    chance: random.Random
    standing: Standing = field(default_factory=lambda: Standing(NOW))
    started: list[Start] = field(default_factory=list[Start])

    def play(self) -> Decision:
        for _ in range(2000):
            decision = decide(self.jobs, self.rules, self.standing)
            self.check(decision)
            if decision.is_over:
                return decision
            if self.chance.random() < 0.1:
                continue  # killed before anything was begun, and asked again
            for start in decision.start[: self.chance.randint(1, 9)]:
                self.started.append(start)
                self.note(start.job, Attempt(start.number, f"{start}"))
            self.go_on(decision)
        raise AssertionError("the night does not end")

    def check(self, decision: Decision) -> None:
        running = [each for tries in self.standing.attempts.values() for each in tries if not each.has_ended]
        assert len(running) + len(decision.start) <= max(self.rules.in_flight, len(running))
        assert not (decision.stopped and decision.start)
        assert not set(decision.start) & set(self.started)
        wants = {job.id: job.wants for job in self.jobs}
        for start in decision.start:
            assert start.job not in decision.passed_over
            for wanted in wants[start.job]:
                tries = self.standing.attempts[wanted]
                assert all(each.has_ended for each in tries)
                assert any(each.accepted for each in tries)

    def note(self, job: str, attempt: Attempt) -> None:
        others = [each for each in self.standing.attempts.get(job, ()) if each.number != attempt.number]
        self.standing = replace(self.standing, attempts={**self.standing.attempts, job: [*others, attempt]})

    def go_on(self, decision: Decision) -> None:
        """Something ends, or time goes by."""
        running = [(job, each) for job, tries in self.standing.attempts.items() for each in tries if not each.has_ended]
        if running:
            job, attempt = self.chance.choice(running)
            outcome = self.chance.choice(OUTCOMES)
            self.note(job, replace(ended(attempt.number, outcome), delegation_id=attempt.delegation_id))
            self.standing = replace(
                self.standing,
                ended_now=[*self.standing.ended_now, outcome],
                spent_usd=self.standing.spent_usd + self.chance.choice([0.0, 0.5]),
                now=self.standing.now + timedelta(minutes=self.chance.randint(0, 60)),
            )
        elif decision.look_again and not decision.start:
            self.standing = replace(self.standing, now=decision.look_again)
        if self.chance.random() < 0.1:
            until = self.standing.now + timedelta(minutes=self.chance.randint(0, 600))
            self.standing = replace(self.standing, closed={**self.standing.closed, "p": until})


@settings(max_examples=150, deadline=None)
@given(
    jobs=job_sets(),
    rules=st.builds(
        Rules,
        in_flight=st.integers(1, 4),
        until=st.sampled_from([None, UNTIL]),
        budget_usd=st.sampled_from([None, 2.0]),
        error_rate=st.sampled_from([None, 0.5]),
        errors_after=st.just(3),
    ),
    seed=st.integers(0, 2**32),
)
def test_every_night_ends_with_each_job_done_once_or_passed_over_with_a_reason(
    jobs: list[Job], rules: Rules, seed: int
):
    night = Night(jobs, rules, random.Random(seed))
    last = night.play()

    assert len(night.started) == len(set(night.started))
    for job in jobs:
        tries = night.standing.attempts.get(job.id, ())
        assert all(each.has_ended for each in tries)
        assert len(tries) == job.attempts or last.passed_over[job.id]
