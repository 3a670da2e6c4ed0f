"""One question, or one piece of work in a folder, that is answered by a text: cards for it, and the text itself."""

from pathlib import Path

from delegation.card import Card
from delegation.failures import error_text
from delegation.receipt import Receipt
from delegation.settings import Settings
from mcp_entry.verbs.cards import checked_card
from mcp_entry.verbs.wording import tokens_line

MAX_ITERATIONS, TIMEOUT_SECONDS = 20, 600


def question_card(
    settings: Settings,
    prompt: str,
    *,
    model: str | None = None,
    system_prompt: str | None = None,
    backend: str | None = None,
    key: str | None = None,
) -> Card:
    """One completion: no tools, one turn, and an empty folder of ours where a repository would be."""
    fields = {
        "task": prompt, "repo": str(settings.home.no_repository), "expects": "answer", "max_turns": 1, "model": model,
        "system_prompt": system_prompt or None, "backend": _backend(settings, backend), "key": key,
    }  # fmt: skip
    return checked_card(fields, "the prompt")


def agentic_card(
    settings: Settings,
    task: str,
    folder: str,
    *,
    model: str | None = None,
    max_iterations: int = MAX_ITERATIONS,
    timeout_seconds: int = TIMEOUT_SECONDS,
    backend: str | None = None,
    key: str | None = None,
) -> Card:
    """An agent that works in the folder itself and ends with a text. Its patch and receipt are kept as any other's."""
    fields = {
        "task": task, "repo": folder, "expects": "answer", "isolation": "in_place", "max_turns": max_iterations,
        "timeout_seconds": timeout_seconds, "model": model, "backend": _backend(settings, backend), "key": key,
    }  # fmt: skip
    return checked_card(fields, "the arguments")


def _backend(settings: Settings, backend: str | None) -> str | None:
    if backend or not settings.base_url:
        return backend or None
    from delegation.models.catalogue import ENVIRONMENT_BACKEND

    return ENVIRONMENT_BACKEND


def text_of(receipt: Receipt, *, with_id: bool = False) -> str:
    """The answer, or one line that begins with `Error: `; then what it took, and the number where it is asked for."""
    text = receipt.answer if receipt.outcome == "answered" and receipt.answer else failure_line(receipt)
    lines = [tokens_line(receipt.usage, receipt.cost), id_line(receipt.id, receipt.number) if with_id else None]
    return "\n\n".join(filter(None, [text.rstrip(), "\n".join(filter(None, lines))]))


def failure_line(receipt: Receipt) -> str:
    """Why there is no answer."""
    if receipt.failure_kind:
        return error_text(receipt.failure_kind, receipt.failure_message or "")
    if receipt.outcome == "cancelled":
        return "Error: it was cancelled before it was answered"
    return f"Error: it ended as {receipt.outcome} without an answer"


def id_line(delegation_id: str, number: int | None) -> str:
    return f"[delegation_id: {delegation_id if number is None else number}]"


def folder_of(text: str, start: Path) -> str:
    """The absolute folder that somebody means."""
    return str((start / Path(text).expanduser()).absolute())
