"""Questions that another process answers: what it is told, and what comes back."""

import os
import time
from pathlib import Path

import pytest
from readers import ReadingUser, provider

from delegation.errors import Cancelled, ConflictError, EndpointError, NotFoundError, StackError, UsageError, WorkFailed
from delegation.home import Home
from delegation.processes.identity import ProcessId, process_id
from delegation.reading.admission import Wish, admit_query
from delegation.reading.kept import Kept, Later, with_references
from delegation.reading.labels import run_name_of, unrecorded
from delegation.reading.locks import Busy
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from delegation.secrets import value_of
from delegation.shared_state import SharedState, budgets, migrate
from delegation.steps import reading as steps
from mcp_entry.verbs.reading.question_run import _hand_over


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", tmp_path / "home" / "config" / "delegate.toml")


@pytest.fixture
def user(tmp_path: Path) -> ReadingUser:
    return ReadingUser(tmp_path / "user-of-this-test")


@pytest.fixture
def question(home: Home, user: ReadingUser):
    user.configure([provider("p", "http://127.0.0.1:9/v1")])
    return admit_query(user.settings, "a question", Wish()).question


def test_a_question_travels_with_references_and_no_key_is_in_its_file(home, user):
    user.configure([provider("p", "http://127.0.0.1:9/v1") | {"api_key": "sk-very-secret"}])
    admitted = admit_query(user.settings, "a question", Wish())
    question = with_references(home, admitted.question, admitted.keys)
    Kept(home).keep(question)
    (path,) = (home.reading / "questions").iterdir()
    assert "sk-very-secret" not in path.read_text() + repr(admitted)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Kept(home).question(question.id)
    assert again == question
    assert value_of(home, again.readers[0].endpoint.key_ref) == "sk-very-secret"


@pytest.mark.parametrize(
    "error",
    [
        EndpointError("quota", "spent"),
        WorkFailed("privacy", "leaves"),
        ConflictError("busy"),
        NotFoundError("gone"),
        UsageError("no"),
        Cancelled("stopped"),
        StackError("down"),
    ],
)
def test_a_failure_comes_back_as_what_it_was(home, question, error):
    kept = Kept(home)
    kept.keep(question)
    kept.settle(question.id, error)
    with pytest.raises(WorkFailed if isinstance(error, WorkFailed) else type(error)) as told:
        kept.outcome(question.id)
    assert str(told.value) == str(error)
    assert getattr(told.value, "kind", None) == getattr(error, "kind", None)
    assert isinstance(told.value, type(error)) or type(error) is WorkFailed


def test_an_answer_comes_back_whole_and_nothing_is_left_after_it(home, user):
    with ScriptedEndpoint(["so"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        answer = user.query()
    kept = Kept(home)
    kept.keep(admit_query(user.settings, "x", Wish()).question)
    (path,) = (home.reading / "questions").iterdir()
    name = path.name.split(".")[0]
    assert (kept.outcome(name), kept.has_begun(name)) == (None, False)
    kept.begin(name)
    kept.settle(name, answer)
    assert (kept.outcome(name), kept.has_begun(name)) == (answer, True)
    kept.remove(name)
    assert list((home.reading / "questions").iterdir()) == []
    kept.settle(name, answer)
    assert list((home.reading / "questions").iterdir()) == []
    with pytest.raises(NotFoundError, match="nobody waits for question"):
        kept.question(name)


def test_what_a_killed_asker_left_goes_after_a_day(home, question):
    kept = Kept(home)
    kept.keep(question)
    kept.clear()
    (path,) = (home.reading / "questions").iterdir()
    os.utime(path, (time.time() - 90_000,) * 2)
    kept.clear()
    assert not path.exists()


@pytest.mark.parametrize("what", ["holds", "records"])
def test_what_a_killed_process_was_at_is_known_until_somebody_has_tidied_it(home, question, what):
    kept, dead = Kept(home), ProcessId(pid=os.getpid(), started=1.0)
    kept.keep(question)
    kept.mark(question.id, what)
    assert kept.left(what) == []
    path = home.reading / "questions" / f"{question.id}.{what}"
    path.write_text(dead.model_dump_json())
    os.utime(path, (time.time() - 90_000,) * 2)
    kept.remove(question.id)
    kept.clear()
    assert (kept.left("holds"), kept.left("records")) == (
        ([question.id], []) if what == "holds" else ([], [question.id])
    )
    kept.unmark(question.id, what)
    assert (kept.left(what), list((home.reading / "questions").iterdir())) == ([], [])


@pytest.mark.parametrize("name", ["../../x", "rd-x", "", "dg-20261130t160527291-fvre", "rd-20261130t160527291-fvre/.."])
def test_a_name_that_is_no_id_reaches_no_file(home, name):
    with pytest.raises(UsageError, match="is not a session id"):
        Kept(home).question(name)


def test_an_answer_without_the_stack_waits_to_be_recorded(home, question):
    later = Later(home)
    assert later.entries() == []
    entry = unrecorded(question, EndpointError("quota", "spent"), is_counted=False)
    later.add(entry)
    assert (entry.state, later.entries()) == ("FAILED", [entry])
    assert run_name_of(question) == f"query: a question · {question.id[-4:]}"
    later.done(entry)
    assert later.entries() == []


def test_what_an_answer_without_the_stack_cost_is_counted_once_it_is_recorded(user, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    monkeypatch.setenv("DELEGATE_DATABASE_URL", url)
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "1"
    with ScriptedEndpoint([Turn("so", cost_usd=0.25)] * 2) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        admitted = admit_query(user.settings, "x", Wish())
        answer = user.ask(admitted)
    for is_counted in (False, True):
        steps.count_earlier(unrecorded(admitted.question, answer, is_counted=is_counted))
    with SharedState(url) as tables:
        told = budgets.tally(tables, delegation_id=admitted.question.id)
    assert (told.reported_usd, told.pending_usd) == (0.25, 0.0)


def test_an_answer_of_unknown_cost_that_was_counted_before_stops_nobody(user, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    monkeypatch.setenv("DELEGATE_DATABASE_URL", url)
    user.environ["DELEGATE_BUDGET_PER_DAY_USD"] = "1"
    with ScriptedEndpoint(["so"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        admitted = admit_query(user.settings, "x", Wish())
        entry = unrecorded(admitted.question, user.ask(admitted), is_counted=False)
    assert (entry.cost is not None and entry.cost.kind) == "unknown"
    for _ in range(2):  # its process was killed before it could remove the entry
        steps.count_earlier(entry)
    with SharedState(url) as tables:
        assert budgets.unsettled(tables) == ()


def test_two_processes_do_not_record_the_same_answers(home):
    later = Later(home)
    with later.alone():
        with pytest.raises(Busy), Later(home).alone():
            raise AssertionError
        assert later.entries() == []
    with later.alone():
        pass


def test_an_answer_that_cannot_be_handed_over_leaves_nobody_waiting_for_it(home, question, monkeypatch):
    monkeypatch.setattr(steps, "home", lambda: home)
    kept, me = Kept(home), process_id(os.getpid())
    kept.keep(question)
    kept.begin(question.id, me)
    elsewhere = steps.Elsewhere(question.id)
    assert elsewhere.outcome() is None

    def full(*_: object) -> None:
        raise StackError("free space")

    monkeypatch.setattr(kept, "_write", full)
    _hand_over(kept, question.id, StackError("x"))
    with pytest.raises(StackError, match="could not hand it over"):
        elsewhere.outcome()


def test_a_question_is_under_way_until_its_files_are_gone_or_a_day_old(home, question):
    kept = Kept(home)
    assert not kept.is_under_way(question.id)
    kept.keep(question)
    assert (kept.is_under_way(question.id), kept.is_given_up(question.id)) == (True, False)
    kept.give_up(question.id)
    assert kept.is_given_up(question.id)
    (path,) = (home.reading / "questions").glob("*.question")
    os.utime(path, (time.time() - 90_000,) * 2)
    assert not kept.is_under_way(question.id)
    kept.remove(question.id)
    assert list((home.reading / "questions").iterdir()) == []
    assert not kept.is_under_way("rd-no-id")
