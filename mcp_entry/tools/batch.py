"""Several agents at once, and all their results in the order of the tasks."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError

from delegation.card import Card, Lane
from delegation.errors import DelegateError, UsageError
from delegation.receipt import Outcome
from delegation.wrong_values import sentence
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of, waiting_seconds
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.mcp_server.views import clipped, view_of
from mcp_entry.tools.delegations import WaitSeconds
from mcp_entry.verbs.cards import checked_card, fields_of
from mcp_entry.verbs.service import Service

GROUP = "delegations"
_TEXTS = 24_000


class AgentTask(BaseModel):
    """One task. Only `task` is required."""

    model_config = ConfigDict(extra="forbid")

    task: str = Field(description="Complete in itself.")
    agent_name: str | None = Field(default=None, description="A Markdown agent; none: the built-in coder.")
    workdir: str | None = Field(default=None, description="Repository or folder; none: this session's project.")
    model: str | None = None
    max_turns: int | None = Field(default=None, ge=1, le=150)
    max_tokens: int | None = Field(default=None, ge=1)
    verify: str | None = Field(default=None, description="Shell command that judges the change.")
    lane: Lane | None = Field(default=None, description="'local' never leaves this machine or network.")


class BatchResult(BaseModel):
    """One task's delegation, or why there is none. poll_delegations and the receipt have more of each."""

    delegation_id: str | None = None
    number: int | None = None
    agent_name: str | None = None
    state: str = Field(default="refused", description="The outcome, or the step it is at.")
    outcome: Outcome | None = None
    summary: str | None = None
    text: str | None = Field(default=None, description="The answer, or what the worker says it did.")
    patch_path: str | None = None
    tokens: str | None = None
    error: str | None = Field(default=None, description="Why it was not submitted.")
    watch: str | None = None


class Batch(BaseModel):
    """In the order of the tasks."""

    results: list[BatchResult]
    all_ended: bool
    notes: list[str] = Field(default_factory=list)


def tools(host: ToolHost) -> Iterable[Tool]:
    """The one tool, served by this host."""
    yield Tool("delegate_batch", "Delegate several and wait", _batch(host), read_only=False)


def _batch(host: ToolHost) -> Any:
    @expected
    async def delegate_batch(
        ctx: Ctx,
        tasks: Annotated[list[SkipValidation[AgentTask]], Field(min_length=1)],
        wait_seconds: WaitSeconds = None,
    ) -> Batch:
        """Hand several pieces of work to agents at once and wait for all; results in the order of the tasks.

        Each is a delegation of its own, in its own worktree. One that fails or is refused stops no other.
        """
        await host.call(lambda verbs: _check_size(verbs, tasks))
        keys = [key_of(ctx, "delegate_batch", part) for part in range(len(tasks))]
        submitted = await host.call_to_the_end(
            lambda verbs: [_submitted(verbs, task, key) for task, key in zip(tasks, keys, strict=True)]
        )
        ids = [each for each in submitted if not isinstance(each, DelegateError)]
        notes = await host.wait(ids, waiting_seconds(wait_seconds, ctx), ctx)
        results = await host.call(lambda verbs: _results(verbs, tasks, submitted))
        ended = all(result.outcome is not None for result in results if result.delegation_id)
        return Batch(results=results, all_ended=ended, notes=notes[:5])

    return delegate_batch


def _check_size(verbs: Service, tasks: Sequence[object]) -> None:
    most = verbs.settings.max_queue
    if len(tasks) > most:
        raise UsageError(
            f"{len(tasks)} tasks are more than DELEGATE_MAX_QUEUE allows ({most}): split them, or raise it"
        )


def _submitted(verbs: Service, given: object, key: str | None) -> str | DelegateError:
    """`given` is what the client sent, unchecked: one that is no task is refused alone."""
    try:
        return verbs.submit(_card(verbs, _task(given), key), tool="delegate_batch").id
    except DelegateError as error:
        return error


def _task(given: object) -> AgentTask:
    try:
        return AgentTask.model_validate(fields_of(given, "a task"))
    except ValidationError as error:
        raise UsageError(f"this task cannot be used: {sentence(error, AgentTask)}") from None


def _agent_name(given: object) -> str | None:
    name = cast(dict[str, Any], given).get("agent_name") if isinstance(given, dict) else None
    return name if isinstance(name, str) else None


def _card(verbs: Service, task: AgentTask, key: str | None) -> Card:
    fields = task.model_dump(exclude={"agent_name", "workdir"})
    return checked_card(
        {**fields, "agent": task.agent_name, "repo": verbs.workdir(task.workdir), "key": key}, "the task"
    )


def _results(verbs: Service, tasks: Sequence[object], submitted: Sequence[str | DelegateError]) -> list[BatchResult]:
    share = max(200, _TEXTS // len(tasks))
    return [_result(verbs, task, each, share) for task, each in zip(tasks, submitted, strict=True)]


def _result(verbs: Service, task: object, submitted: str | DelegateError, share: int) -> BatchResult:
    if isinstance(submitted, DelegateError):
        return BatchResult(agent_name=_agent_name(task), error=clipped(for_tools(str(submitted)), share))
    view = view_of(verbs.summary(submitted), verbs.settings.home)
    text = view.answer or view.claim
    return BatchResult(
        delegation_id=view.delegation_id,
        number=view.number,
        agent_name=view.agent or _agent_name(task),
        state=view.state,
        outcome=view.outcome,
        summary=clipped(view.summary, share),
        text=clipped(text, share) if text else None,
        patch_path=view.patch.path if view.patch else None,
        tokens=view.tokens,
        watch=view.watch,
    )
