"""The step of a reading as a Prefect task, and what a person sees of it in the UI.

The task is not retried: a question has readers of its own to fail over to, and somebody waits for it.
"""

from contextlib import suppress
from threading import Event, Thread
from uuid import UUID

import httpx
from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import PrefectException
from prefect.runtime import deployment, flow_run

from delegation.errors import Cancelled, DelegateError, StackError
from delegation.reading.kept import Unrecorded
from delegation.reading.labels import answer_markdown, run_name_of, shown_parameters, tags_of
from delegation.reading.locks import Busy
from delegation.reading.question import Answer, Question
from delegation.steps import reading as steps
from tasks.answering import UnderWay, under_way
from tasks.publish import is_being_cancelled

_DEPLOYMENT = "reading/reading"
_MOST_AT_ONCE = 50
_LOOK_SECONDS = 2.0


def _answer(question_id: str) -> Answer:
    return under_way(question_id).outcome()


ask = task(name="ask", task_run_name="ask", cache_policy=NO_CACHE, persist_result=False)(_answer)


def new_run(question: Question) -> FlowRun | None:
    """The flow run of a question that this process answers: Pending, which no worker takes. None without a server."""
    with suppress(PrefectException, httpx.HTTPError), get_client(sync_client=True) as client:
        return client.create_flow_run_from_deployment(
            client.read_deployment_by_name(_DEPLOYMENT).id, name=run_name_of(question), tags=tags_of(question),
            parameters=shown_parameters(question), idempotency_key=question.id,
            state=State(type=StateType.PENDING, name="Pending"),
        )  # fmt: skip
    return None


class CancelButton:
    """Looks whether somebody pressed Cancel in the UI: no worker knows of a question's run. A context manager."""

    def __init__(self, question: UnderWay) -> None:
        self._question = question
        self._ended = Event()
        self._thread = Thread(target=self._look, args=(flow_run.get_id(),), name="cancel-button", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _look(self, run_id: str | None) -> None:
        with get_client(sync_client=True) as client:
            while run_id is not None and not self._ended.wait(_LOOK_SECONDS):
                with suppress(PrefectException, httpx.HTTPError):
                    state = client.read_flow_run(UUID(run_id)).state
                    if state is not None and state.type in (StateType.CANCELLING, StateType.CANCELLED):
                        self._question.give_up(Cancelled("the question was cancelled"))
                        return


def was_cancelled(question_id: str) -> bool:
    """Whether somebody wants no answer any more (otherwise the process is only being stopped)."""
    return steps.was_given_up(question_id) or is_being_cancelled()


def name_run(question: Question) -> None:
    """Give a run that was started in the UI the name and tags that other questions' runs have."""
    run_id = flow_run.get_id()
    tags = set(flow_run.get_tags()) | set(tags_of(question))
    if run_id is None or tags == set(flow_run.get_tags()):
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(run_id), name=run_name_of(question), tags=sorted(tags))


def show(question: Question, answer: Answer) -> None:
    """Leave the answer as an artifact."""
    create_markdown_artifact(
        answer_markdown(question, answer), key=question.id, description=answer.text.splitlines()[0]
    )


def final_state(outcome: Answer | DelegateError) -> State:
    """How the run of a question ends."""
    if isinstance(outcome, Answer):
        return State(type=StateType.COMPLETED, name="Answered", message=outcome.text.splitlines()[0])
    if isinstance(outcome, Cancelled):
        return State(type=StateType.CANCELLED, name="Cancelled", message=str(outcome))
    return State(type=StateType.FAILED, name="Failed", message=str(outcome))


def record_earlier() -> None:
    """Give answers that were given without the stack a run of their own. What cannot be recorded stays for later."""
    own, later = deployment.id, steps.later()
    if not own or not later.entries():
        return
    away = (PrefectException, httpx.HTTPError, OSError, StackError)
    with suppress(Busy, *away), later.alone(), get_client(sync_client=True) as client:
        for entry in later.entries()[:_MOST_AT_ONCE]:
            state = _state(entry)
            run = client.create_flow_run_from_deployment(
                UUID(own), name=entry.name, tags=list(entry.tags), state=state, idempotency_key=entry.id,
                parameters={"question_id": entry.id},
            )  # fmt: skip
            if run.state is None or run.state.type != state.type:  # of a process that was killed over it
                client.set_flow_run_state(run.id, state, force=True)
            steps.count_earlier(entry)
            later.done(entry)


def _state(entry: Unrecorded) -> State:
    kind, name = (StateType.COMPLETED, "Answered") if entry.state == "COMPLETED" else (StateType.FAILED, "Failed")
    return State(type=kind, name=name, message=entry.message)
