"""How a question is called in Prefect's UI, and what its run shows."""

from datetime import UTC, datetime

from delegation.errors import DelegateError
from delegation.reading.kept import Unrecorded
from delegation.reading.question import Answer, Question

_TITLE_LENGTH = 48


def run_name_of(question: Question) -> str:
    words = " ".join(question.prompt.split())
    short = words if len(words) <= _TITLE_LENGTH else f"{words[: _TITLE_LENGTH - 1].rstrip()}…"
    return f"{question.tool}: {short} · {question.id.rpartition('-')[2]}"


def tags_of(question: Question) -> tuple[str, ...]:
    return ("reading", question.tool, question.id)


def shown_parameters(question: Question) -> dict[str, str | None]:
    """What the run is given. The question itself lies in our home: prompts can be larger than parameters may be."""
    return {"question_id": question.id, "prompt": question.prompt[:2000], "source": question.source}


def answer_markdown(question: Question, answer: Answer) -> str:
    """The answer as an artifact; the prompt before it, quoted."""
    prompt = "\n".join(f"> {line}" for line in question.prompt[:2000].splitlines())
    about = f"About `{question.source}`:\n\n" if question.source else ""
    return f"{about}{prompt}\n\n{answer.answer}\n\n`{answer.text.splitlines()[0]}`"


def unrecorded(question: Question, outcome: Answer | DelegateError, *, is_counted: bool) -> Unrecorded:
    """What is recorded later of a question that was answered without the stack, or without Prefect's server alone.

    `is_counted` tells that the budgets know of its cost.
    """
    now = datetime.now(UTC)
    said = outcome.text.splitlines()[0] if isinstance(outcome, Answer) else str(outcome)
    return Unrecorded(
        id=question.id,
        tool=question.tool,
        name=run_name_of(question),
        tags=tags_of(question),
        state="COMPLETED" if isinstance(outcome, Answer) else "FAILED",
        message=f"At {now:%Y-%m-%d %H:%M:%S} UTC, without the stack: {said}"[:1000],
        at=now,
        cost=outcome.cost if isinstance(outcome, Answer) and not is_counted else None,
        requests=outcome.requests if isinstance(outcome, Answer) else 1,
        repository=question.repository,
        budgets=question.budgets,
    )
