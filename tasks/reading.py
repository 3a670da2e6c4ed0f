"""The step of a reading as a Prefect task, and what a person sees of it in the UI.

The task is not retried: a question has readers of its own to fail over to, and somebody waits for it.
"""

from contextlib import suppress
from uuid import UUID

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import PrefectException
from prefect.runtime import deployment, flow_run

from delegation.reading.kept import Unrecorded
from delegation.reading.labels import answer_markdown, run_name_of, tags_of
from delegation.reading.question import Answer, Question
from delegation.steps import reading as steps

_MOST_AT_ONCE = 50

ask = task(name="ask", task_run_name="ask", cache_policy=NO_CACHE, persist_result=False)(steps.answer_question)


def name_run(question: Question) -> None:
    """Give a run that was started in the UI the name and tags that the front door gives to its own."""
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


def record_earlier() -> None:
    """Give answers that were given without the stack a run of their own. What cannot be recorded stays for later."""
    own = deployment.id
    if not own:
        return
    later = steps.later()
    with suppress(PrefectException, OSError), get_client(sync_client=True) as client:
        for entry in later.entries()[:_MOST_AT_ONCE]:
            client.create_flow_run_from_deployment(
                UUID(own), name=entry.name, tags=list(entry.tags), state=_state(entry), idempotency_key=entry.id,
                parameters={"question_id": entry.id},
            )  # fmt: skip
            later.done(entry)


def _state(entry: Unrecorded) -> State:
    kind, name = (StateType.COMPLETED, "Answered") if entry.state == "COMPLETED" else (StateType.FAILED, "Failed")
    return State(type=kind, name=name, message=entry.message)
