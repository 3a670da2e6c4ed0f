"""Questions under the slots, caps, cooldowns and budgets of delegations: passed over quickly, never over a limit."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from readers import ReadingUser, provider
from waiting import until

from delegation.errors import StackError, WorkFailed
from delegation.reading.admission import Wish, admit_query
from delegation.reading.providers import AllFailed
from delegation.reading.question import Answer
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from delegation.shared_state import SharedState, budgets, caps, cooldowns, migrate, tickets


@pytest.fixture
def user(tmp_path: Path) -> ReadingUser:
    return ReadingUser(tmp_path / "user-of-this-test", chance=lambda: 0.0)


@pytest.fixture
def tables(tmp_path: Path, user: ReadingUser):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    with SharedState(url) as user.tables:
        yield user.tables


def now() -> datetime:
    return datetime.now(UTC)


def fill(tables: SharedState, bucket: str, holders: int) -> None:
    """As many delegations at work."""
    for number in range(holders):
        assert tickets.take(tables, bucket, holder=f"dg-{number}", ceiling=holders, priority="now", now=now()).granted


def empty(tables: SharedState, bucket: str) -> bool:
    return bucket not in tickets.standing(tables, now=now())


def test_a_full_pool_hands_the_question_to_the_next_provider_at_once(user, tables):
    fill(tables, "model-of-full", 6)
    waiting: list[int] = []

    def answer(_: object) -> str:
        waiting.append(tickets.standing(tables, now=now())["model-of-full"].waiting_now)
        return "here"

    with ScriptedEndpoint(["x"]) as full, ScriptedEndpoint(answer) as other:
        user.configure([provider("full", full.base_url), provider("other", other.base_url)])
        begun = time.monotonic()
        answer = user.query()
        assert time.monotonic() - begun < 1.0
        assert (answer.provider, answer.failovers, full.calls) == ("other", 1, [])
    assert answer.failures == (
        "'full' has no free slot: 6 of bucket 'model-of-full' are in use, 0 wait, and 6 at once are allowed",
    )
    assert waiting == [0], "who has gone to another holds up nobody"
    assert tickets.standing(tables, now=now())["model-of-full"].in_use == 6
    assert empty(tables, "model-of-other"), "the slot was given back"


def test_where_every_pool_is_full_the_question_waits_for_the_slot_that_comes_free_first(user, tables):
    fill(tables, "model-of-a", 6)
    fill(tables, "model-of-b", 6)
    answers: list[Answer] = []
    with ScriptedEndpoint(["x"]) as a, ScriptedEndpoint(["here"]) as b:
        user.configure([provider("a", a.base_url), provider("b", b.base_url)])
        asking = Thread(target=lambda: answers.append(user.query()))
        asking.start()
        until(lambda: tickets.standing(tables, now=now())["model-of-b"].waiting_now == 1)
        tickets.leave(tables, "dg-3", bucket="model-of-b", now=now())
        asking.join(10)
        assert (answers[0].provider, answers[0].failovers, a.calls) == ("b", 1, [])
    assert tickets.standing(tables, now=now())["model-of-a"].waiting_now == 0, "it left the other line"


def test_who_waits_longer_than_its_readers_patience_is_told_what_holds_it_up(user, tables):
    fill(tables, "model-of-p", 6)
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url, timeout_ms=300)])
        with pytest.raises(AllFailed, match=r"all 1 provider\(s\) failed; last error: 'p' has no free slot: 6 of") as e:
            user.query()
        assert (e.value.kind, endpoint.calls) == ("throttled", [])
    assert tickets.standing(tables, now=now())["model-of-p"].waiting_now == 0


def test_questions_count_against_the_adaptive_cap_and_lower_it(user, tables):
    caps.override(tables, "model-of-p", 1, now=now(), who="test")
    fill(tables, "model-of-p", 1)
    with ScriptedEndpoint([Turn(fault="429", retry_after="60")]) as tired, ScriptedEndpoint(["x"] * 2) as other:
        user.configure([provider("p", tired.base_url), provider("other", other.base_url)])
        assert "1 at once of 6 are allowed" in user.query().failures[0]
        caps.override(tables, "model-of-p", None, now=now(), who="test")
        assert user.query().provider == "other"
        assert len(tired.calls) == 1
    assert (caps.of(tables, "model-of-p") or caps.Cap(6)).cap == 3


def test_a_question_holds_its_slot_while_it_is_asked_and_its_answer_widens_the_cap(user, tables):
    seen: list[int] = []
    caps.throttled(tables, "model-of-p", ceiling=6, hint_seconds=None, now=now() - timedelta(hours=1))
    before = caps.of(tables, "model-of-p")

    def answer(_: object) -> str:
        seen.append(tickets.standing(tables, now=now())["model-of-p"].in_use)
        return "x"

    with ScriptedEndpoint(answer) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        user.query()
    assert seen == [1]
    assert empty(tables, "model-of-p")
    after = caps.of(tables, "model-of-p")
    assert before is not None
    assert after is not None
    assert after.successes == before.successes + 1


def test_a_short_cooldown_is_sat_out_where_nobody_else_can_be_asked(user, tables):
    with ScriptedEndpoint(["a"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        pool = admit_query(user.settings, "x", Wish(), chance=user.chance).question.readers[0].endpoint.quota_pool
        cooldowns.begin(tables, pool, until=now() + timedelta(seconds=1), kind="throttled", reason="r", now=now())
        assert user.query().answer == "a"


def test_a_cooldown_passes_the_question_on_at_once(user, tables):
    with ScriptedEndpoint(["x"]) as cold, ScriptedEndpoint(["a"]) as other:
        user.configure([provider("cold", cold.base_url), provider("other", other.base_url)])
        pool = admit_query(user.settings, "x", Wish(), chance=user.chance).question.readers[0].endpoint.quota_pool
        cooldowns.begin(tables, pool, until=now() + timedelta(seconds=9), kind="throttled", reason="r", now=now())
        begun = time.monotonic()
        assert user.query().provider == "other"
        assert (time.monotonic() - begun < 1.0, cold.calls) == (True, [])
    assert empty(tables, "model-of-cold")


def test_a_spent_budget_of_the_day_lets_no_question_pass_and_nothing_is_sent(user, tables):
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "0.15"
    with ScriptedEndpoint([Turn("x", cost_usd=0.09)] * 3) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        user.query()
        with pytest.raises(WorkFailed, match=r"per_day|of today") as told:
            user.query()
        assert (told.value.kind, len(endpoint.calls)) == ("budget", 1)
    spent = budgets.tally(tables, day=now().astimezone().date())
    assert (spent.reported_usd, spent.pending_usd) == (0.09, 0.0)
    assert empty(tables, "model-of-p")


def test_tables_that_come_back_after_money_was_to_be_set_aside_take_neither_answer_nor_slot(user, tables, monkeypatch):
    def away(*_: object, **__: object) -> None:
        raise StackError("the tables are away")

    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "1"
    monkeypatch.setattr(budgets, "reserve", away)
    with ScriptedEndpoint([Turn("x", cost_usd=0.09)]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        assert user.query().answer == "x"
    assert empty(tables, "model-of-p")


def test_a_budget_of_a_repository_counts_its_questions_and_no_bare_ones(user, tables, repo, git):
    root = repo({"sub/a.py": "x = 1\n"})
    user.environ["DELEGATE_BUDGET_PER_REPOSITORY_PER_DAY_USD"] = "0.12"
    with ScriptedEndpoint([Turn("x", cost_usd=0.05)] * 4) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        user.analyze(root / "sub")
        with pytest.raises(WorkFailed, match="for this repository today"):
            user.analyze(root)
        user.query()
    assert budgets.tally(tables, repository=str(root)).reported_usd == 0.05


def test_an_answer_that_was_paid_and_is_of_no_use_is_counted(user, tables):
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "1"
    with ScriptedEndpoint([Turn("", thinking="hm", stop="length", cost_usd=0.04)]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        with pytest.raises(AllFailed, match="the answer is empty"):
            user.query()
    assert budgets.tally(tables, day=now().astimezone().date()).reported_usd == 0.04


def test_a_reading_in_parts_ends_when_its_money_is_gone(user, tables, write):
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "0.12"
    root = write({f"{number}.txt": "word " * 1500 for number in range(4)})
    with ScriptedEndpoint([Turn("note", cost_usd=0.07)] * 9) as endpoint:
        user.configure([provider("p", endpoint.base_url, max_input_tokens=4000)])
        with pytest.raises(WorkFailed) as told:
            user.analyze(root)
        assert (told.value.kind, len(endpoint.calls)) == ("budget", 2)


def test_a_local_reader_costs_nothing_under_any_budget(user, tables):
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "0"
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url, upstream_local=True)])
        assert user.query().answer == "x"
