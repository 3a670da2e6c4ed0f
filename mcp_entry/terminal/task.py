"""The verbs that end with a text: task, agentic, batch."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from delegation.card import Card
from delegation.errors import UsageError
from delegation.outcome import exit_code_of
from delegation.receipt import Receipt
from mcp_entry.terminal.card_input import words_of
from mcp_entry.terminal.common import AsJson, print_json, print_line, say, service
from mcp_entry.terminal.exits import STOPPED_WAITING, NotAnswered
from mcp_entry.terminal.follow import follow
from mcp_entry.terminal.jobs import read_jobs, run_jobs
from mcp_entry.verbs.one_shot import (
    MAX_ITERATIONS,
    TIMEOUT_SECONDS,
    agentic_card,
    failure_line,
    folder_of,
    question_card,
    text_of,
)
from mcp_entry.verbs.service import Service

Words = Annotated[str | None, Parameter(help="The text; `-` or a pipe reads it from stdin.")]
TaskFile = Annotated[str | None, Parameter(help="Read the text from a file; `-` is stdin.")]
Backend = Annotated[str | None, Parameter(help="A backend of models.json; none: DELEGATE_BASE_URL, else the default.")]
Model = Annotated[str | None, Parameter(help="Alias of a model, or a model inside the backend.")]
Capture = Annotated[
    bool, Parameter(name="--capture-transcript", negative="", show_default=False, help="End with [delegation_id: N].")
]


def task(
    prompt: Words = None,
    /,
    *,
    task_file: TaskFile = None,
    backend: Backend = None,
    model: Model = None,
    system_prompt: Annotated[str | None, Parameter(help="None: a short one of ours.")] = None,
    capture_transcript: Capture = False,
    json: AsJson = False,
) -> int:
    """One completion: prints the answer and what it took. No tools, no files."""
    words = words_of(prompt, task_file, "prompt")
    verbs = service()
    card = question_card(verbs.settings, words, model=model, system_prompt=system_prompt, backend=backend)
    return _answered(verbs, card, "task", with_id=capture_transcript, as_json=json)


def agentic(
    words: Words = None,
    /,
    *,
    dir_: Annotated[str, Parameter(name="--dir", help="Folder it works in; files there change directly.")],
    task_file: TaskFile = None,
    backend: Backend = None,
    model: Model = None,
    max_iterations: Annotated[int, Parameter(help="Model turns, at most 150.")] = MAX_ITERATIONS,
    timeout_seconds: Annotated[int, Parameter(name="--timeout", help="From the start of work.")] = TIMEOUT_SECONDS,
    capture_transcript: Capture = False,
    json: AsJson = False,
) -> int:
    """An agent that works with tools directly in a folder: prints its final answer and what it took."""
    wanted = words_of(words, task_file, "task")
    verbs = service()
    card = agentic_card(
        verbs.settings, wanted, folder_of(dir_, verbs.settings.cwd), model=model, max_iterations=max_iterations,
        timeout_seconds=timeout_seconds, backend=backend,
    )  # fmt: skip
    return _answered(verbs, card, "agentic", with_id=capture_transcript, as_json=json)


def batch(
    jobs: Annotated[str, Parameter(name="JOBS", help="A file with one JSON object per line; `-` is stdin.")] = "",
    /,
    *,
    task_file: Annotated[str | None, Parameter(show=False)] = None,
    out_dir: Annotated[Path | None, Parameter(help="Each result goes to <name>.txt there; none: to stdout.")] = None,
    json: AsJson = False,
) -> int:
    """Many of both kinds: a job with `dir` is agentic, one without is a single completion."""
    source = jobs or task_file or ""
    if not source:
        raise UsageError("which jobs? Give a file with one JSON object per line, or `-` for stdin")
    verbs = service()
    return run_jobs(verbs, read_jobs(source, verbs.settings), out_dir, as_json=json)


def _answered(verbs: Service, card: Card, tool: str, *, with_id: bool, as_json: bool) -> int:
    started = verbs.submit(card, tool=tool)
    for warning in (each for each in started.warnings if each not in verbs.settings.warnings):
        say(f"warning: {warning}")
    try:
        receipt = follow(verbs, started.id)
    except KeyboardInterrupt:
        say(f"stopped waiting; {started.id} goes on. End it with: delegate cancel {started.id}")
        return STOPPED_WAITING
    return _shown(verbs, receipt, with_id=with_id, as_json=as_json)


def _shown(verbs: Service, receipt: Receipt, *, with_id: bool, as_json: bool) -> int:
    if as_json:
        print_json(receipt)
        return exit_code_of(receipt)
    _say_what_changed(receipt)
    if receipt.outcome != "answered":
        raise NotAnswered(failure_line(receipt), lambda: verbs.stack_of_failure(receipt.id))
    print_line(text_of(receipt, with_id=with_id))
    return exit_code_of(receipt)


def _say_what_changed(receipt: Receipt) -> None:
    if receipt.patch is None or receipt.isolation != "in_place":
        return
    from mcp_entry.verbs.in_place import files_of, undo_of

    say(f"changed in {receipt.repo}: {', '.join(files_of(receipt))}")
    say(f"undo with: {undo_of(receipt)}")
