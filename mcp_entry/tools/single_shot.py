"""Two tools that answer with a text: one completion, and one agent in a folder. Their errors are texts, too."""

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, ParamSpec

from pydantic import Field

from delegation.card import Card
from delegation.errors import DelegateError
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, key_of, waiting_seconds
from mcp_entry.tools.delegations import WaitSeconds
from mcp_entry.verbs.one_shot import MAX_ITERATIONS, TIMEOUT_SECONDS, agentic_card, id_line, question_card, text_of
from mcp_entry.verbs.progress import receipt_of
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.wording import watch_command

GROUP = "calls"
P = ParamSpec("P")

Model = Annotated[str | None, Field(description="Alias of a model, or a model inside the backend.")]
Backend = Annotated[
    str | None, Field(description="A backend of models.json; none: DELEGATE_BASE_URL, else the default model.")
]
Capture = Annotated[bool, Field(description="End with [delegation_id: N].")]


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool("delegate_task", "Ask a model once", _task(host), read_only=False)
    yield Tool("delegate_agentic_task", "Let an agent work in a folder", _agentic(host), read_only=False)


def _in_text(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    """Failures that we foresaw are a text that begins with `Error: `, never a tool error."""

    @functools.wraps(function)
    async def told(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return await function(*args, **kwargs)
        except DelegateError as error:
            return f"Error: {' '.join(str(error).split())}"

    return told


def _task(host: ToolHost) -> Any:
    @_in_text
    async def delegate_task(
        ctx: Ctx,
        prompt: Annotated[str, Field(description="Complete in itself.")],
        model: Model = None,
        system_prompt: Annotated[str | None, Field(description="None: a short one of ours.")] = None,
        backend: Backend = None,
        capture_transcript: Capture = False,
        wait_seconds: WaitSeconds = None,
    ) -> str:
        """Ask another model one question and get its answer as text. No tools, no files; a failure is `Error: ...`."""
        key = key_of(ctx, "delegate_task")

        def card(verbs: Service) -> Card:
            return question_card(
                verbs.settings, prompt, model=model, system_prompt=system_prompt, backend=backend, key=key
            )

        return await _answered(host, ctx, "delegate_task", card, capture_transcript, wait_seconds)

    return delegate_task


def _agentic(host: ToolHost) -> Any:
    @_in_text
    async def delegate_agentic_task(
        ctx: Ctx,
        task: Annotated[str, Field(description="Complete in itself.")],
        working_dir: Annotated[str, Field(description="Absolute. Files there change directly; no worktree.")],
        model: Model = None,
        max_iterations: Annotated[int, Field(ge=1, le=150, description="Model turns.")] = MAX_ITERATIONS,
        timeout_seconds: Annotated[int, Field(ge=1, description="From the start of work.")] = TIMEOUT_SECONDS,
        backend: Backend = None,
        capture_transcript: Capture = False,
        wait_seconds: WaitSeconds = None,
    ) -> str:
        """Let another model work with tools directly in a folder; only its final answer comes back, or `Error: ...`.

        To have the change judged and your files left alone, use delegate_to_local_agent.
        """
        key = key_of(ctx, "delegate_agentic_task")

        def card(verbs: Service) -> Card:
            return agentic_card(
                verbs.settings, task, verbs.workdir(working_dir), model=model, max_iterations=max_iterations,
                timeout_seconds=timeout_seconds, backend=backend, key=key,
            )  # fmt: skip

        return await _answered(host, ctx, "delegate_agentic_task", card, capture_transcript, wait_seconds)

    return delegate_agentic_task


async def _answered(
    host: ToolHost, ctx: Ctx, tool: str, card: Callable[[Service], Card], with_id: bool, wait_seconds: float | None
) -> str:
    started = await host.call_to_the_end(lambda verbs: verbs.submit(card(verbs), tool=tool))
    notes = await host.wait([started.id], waiting_seconds(wait_seconds, ctx), ctx)
    return await host.call(lambda verbs: _text(verbs, started.id, with_id, notes))


def _text(verbs: Service, delegation_id: str, with_id: bool, notes: list[str]) -> str:
    summary = verbs.summary(delegation_id)
    receipt = receipt_of(summary)
    if receipt is not None:
        return text_of(receipt, with_id=with_id)
    if notes:
        return f"Error: {' '.join(notes[0].split())}"
    number = summary.entry.number if summary.entry else None
    watch = watch_command(verbs.settings.home, delegation_id)
    return (
        f"It has not ended and goes on by itself. Run this in the background to be woken: {watch}\n"
        f"Then poll_delegations has the answer.\n\n{id_line(delegation_id, number)}"
    )
