"""Tools that start, follow and end delegations, and bring their changes home."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, Field, SkipValidation

from delegation.card import Accept, Card, Expects, Isolation, Lane
from delegation.errors import DelegateError, UsageError
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of, waiting_seconds
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.mcp_server.views import Delegation, bounded, view_of
from mcp_entry.verbs.cards import checked_card, fields_of
from mcp_entry.verbs.rerun.changes import RerunFrom
from mcp_entry.verbs.results import Started
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.wording import WATCH_HINT, watch_command

GROUP = "delegations"
_MOST_CARDS, _MOST_IDS = 64, 30

Id = Annotated[
    str, Field(description="An id, a unique beginning or ending (4 characters or more) of one, or a running number.")
]
WaitSeconds = Annotated[
    float | None,
    Field(
        ge=0,
        description="How long to wait for the end; none means until the end where the client allows it, else 50 s.",
    ),
]


class Submitted(BaseModel):
    """One card of submit_delegations: on its way, or refused with the reason."""

    delegation_id: str | None
    number: int | None = None
    duplicate_of_key: bool = Field(default=False, description="The key was used before: this is that delegation.")
    error: str | None = None
    watch: str | None = None
    ui_url: str | None = None
    warnings: list[str] = Field(default_factory=list)


class Submissions(BaseModel):
    """In the order of the cards."""

    delegations: list[Submitted]
    watch_hint: str = WATCH_HINT


class Unknown(BaseModel):
    text: str
    error: str


class Polled(BaseModel):
    """In the order of the ids; what is no delegation is listed apart, and nothing will ever come of it."""

    delegations: list[Delegation]
    unknown: list[Unknown] = Field(default_factory=list)
    all_ended: bool
    notes: list[str] = Field(default_factory=list)


class CancelResult(BaseModel):
    delegation_id: str
    state: str = Field(description="Word of the flow run: Cancelling for some seconds, then Cancelled.")
    had_ended: bool


class ApplyResult(BaseModel):
    """The change is in the working tree, uncommitted. `undo` is a shell command that takes it back."""

    delegation_id: str
    repo: str
    outcome: str
    files: list[str]
    already_applied: bool = Field(default=False, description="It was there before; nothing was changed.")
    undo: str | None = None
    warnings: list[str] = Field(default_factory=list)


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool(
        "delegate_to_local_agent", "Delegate a piece of work", _delegate(host), read_only=False, always_loaded=True
    )
    yield Tool("submit_delegations", "Submit several", _submit(host), read_only=False)
    yield Tool("poll_delegations", "Ask how they stand", _poll(host), read_only=True, always_loaded=True)
    yield Tool("cancel_delegation", "End a delegation", _cancel(host), read_only=False)
    yield Tool("apply_delegation", "Apply its change", _apply(host), read_only=False)
    yield Tool("rerun_delegation", "Do it again", _rerun(host), read_only=False)


def _delegate(host: ToolHost) -> Any:
    @expected
    async def delegate_to_local_agent(
        ctx: Ctx,
        task: Annotated[
            str, Field(description="What is to be done, complete in itself: the worker sees nothing else.")
        ],
        workdir: Annotated[
            str | None,
            Field(description="Repository or folder to work on, absolute; none means this session's project."),
        ] = None,
        agent_name: Annotated[
            str | None, Field(description="A Markdown agent (list_local_agents); none: the built-in coder.")
        ] = None,
        model: Annotated[
            str | None, Field(description="Alias of a model (local_backend_status); none: the default.")
        ] = None,
        verify: Annotated[
            str | None,
            Field(description="Shell command that judges the change, such as 'pytest -q'; 'auto' detects it."),
        ] = None,
        setup: Annotated[str | None, Field(description="Shell command that prepares each checkout.")] = None,
        base: Annotated[str, Field(description="Branch, tag or commit to start from.")] = "HEAD",
        expects: Annotated[Expects, Field(description="'change': a patch. 'answer': a text.")] = "change",
        accept: Annotated[
            Accept, Field(description="'pass': the command must pass. 'no_worse': nothing newly fails.")
        ] = "pass",
        wants: Annotated[list[str] | None, Field(description="Tests that must pass.")] = None,
        lane: Annotated[Lane | None, Field(description="'local' never leaves this machine or network.")] = None,
        max_turns: Annotated[int | None, Field(ge=1, le=150, description="None: 25 local, 60 cloud.")] = None,
        max_tokens: Annotated[int | None, Field(ge=1, description="Output tokens per reply.")] = None,
        timeout_seconds: Annotated[int | None, Field(ge=1, description="Time for the agent, from its start.")] = None,
        budget_usd: Annotated[float | None, Field(gt=0)] = None,
        isolation: Annotated[
            Isolation, Field(description="Where it works; the default leaves your files alone.")
        ] = "worktree",
        include_dirty: Annotated[bool, Field(description="Carry uncommitted changes into the base.")] = False,
        include: Annotated[
            list[str] | None, Field(description="Ignored files, folders or patterns to have in the patch.")
        ] = None,
        key: Annotated[str | None, Field(description="The same key returns the same delegation.")] = None,
        wait_seconds: WaitSeconds = None,
    ) -> Delegation:
        """Hand a piece of work to another model and get back a judged change, or an answer.

        It works in a worktree of its own: nothing of yours changes before apply_delegation. Waits for the end where the
        client allows it; otherwise answers with the id, and the work goes on.
        """
        verbs = await host.call(lambda verbs: verbs)
        fields = {
            "task": task, "repo": verbs.workdir(workdir), "agent": agent_name, "model": model, "verify": verify,
            "setup": setup, "base": base, "expects": expects, "accept": accept, "wants": tuple(wants or ()),
            "lane": lane, "max_turns": max_turns, "max_tokens": max_tokens, "timeout_seconds": timeout_seconds,
            "budget_usd": budget_usd, "isolation": isolation, "include_dirty": include_dirty,
            "include": tuple(include or ()),
            "key": key or key_of(ctx, "delegate_to_local_agent"),
        }  # fmt: skip
        card = checked_card(fields, "the arguments")
        started = await host.call_to_the_end(lambda verbs: verbs.submit(card, tool="delegate_to_local_agent"))
        return await waited(host, started.id, waiting_seconds(wait_seconds, ctx), ctx)

    return delegate_to_local_agent


def _submit(host: ToolHost) -> Any:
    @expected
    async def submit_delegations(
        ctx: Ctx, cards: Annotated[list[SkipValidation[Card]], Field(min_length=1, max_length=_MOST_CARDS)]
    ) -> Submissions:
        """Submit several pieces of work and return their ids at once. A card that is refused stops no other."""
        keys = [key_of(ctx, "submit_delegations", part) for part in range(len(cards))]
        return Submissions(
            delegations=await host.call_to_the_end(
                lambda verbs: [_submitted(verbs, card, key) for card, key in zip(cards, keys, strict=True)]
            )
        )

    return submit_delegations


def _submitted(verbs: Service, given: object, key: str | None) -> Submitted:
    """`given` is what the client sent, unchecked: one that is no card is refused alone."""
    try:
        fields = fields_of(given, "a card")
        card = checked_card({**fields, "key": fields.get("key") or key}, "this card")
        started = verbs.submit(card, tool="submit_delegations")
    except DelegateError as error:
        return Submitted(delegation_id=None, error=for_tools(str(error)))
    return Submitted(
        delegation_id=started.id,
        number=started.number,
        duplicate_of_key=not started.is_new,
        watch=watch_command(verbs.settings.home, started.id),
        ui_url=started.ui_url,
        warnings=[for_tools(warning) for warning in started.warnings],
    )


def _poll(host: ToolHost) -> Any:
    @expected
    async def poll_delegations(
        ctx: Ctx,
        ids: Annotated[list[Id], Field(min_length=1, max_length=_MOST_IDS)],
        wait_seconds: Annotated[float, Field(ge=0, description="Wait until all have ended, for so long at most.")] = 0,
    ) -> Polled:
        """How delegations stand: the outcome of what has ended, step and turn of what has not.

        Long texts are shortened; polling one alone shows more of it.
        """
        known, unknown = await host.call(lambda verbs: _identified(verbs, ids))
        notes = await host.wait(known, wait_seconds, ctx)
        views = await host.call(lambda verbs: _views(verbs, known))
        return Polled(
            delegations=bounded(views),
            unknown=unknown,
            all_ended=all(view.ended for view in views),
            notes=notes[:5],
        )

    return poll_delegations


def _identified(verbs: Service, texts: list[str]) -> tuple[list[str], list[Unknown]]:
    known: list[str] = []
    unknown: list[Unknown] = []
    for text in texts:
        try:
            known.append(verbs.identify(text))
        except DelegateError as error:
            unknown.append(Unknown(text=text, error=for_tools(str(error))))
    return list(dict.fromkeys(known)), unknown


def _views(verbs: Service, ids: list[str]) -> list[Delegation]:
    return [view_of(verbs.summary(each), verbs.settings.home, brief=len(ids) > 1) for each in ids]


def _cancel(host: ToolHost) -> Any:
    @expected
    async def cancel_delegation(delegation_id: Id) -> CancelResult:
        """End a delegation of any kind. What it did until then is kept; poll_delegations shows the end."""
        done = await host.call(lambda verbs: verbs.cancel(delegation_id))
        return CancelResult(delegation_id=done.id, state=done.state, had_ended=done.had_ended)

    return cancel_delegation


def _apply(host: ToolHost) -> Any:
    @expected
    async def apply_delegation(
        delegation_id: Id,
        any_outcome: Annotated[bool, Field(description="Also a change that was refuted, failed or cancelled.")] = False,
    ) -> ApplyResult:
        """Put the change into the repository's working tree by a clean three-way apply, or refuse and change nothing.

        It stays uncommitted. Changes that were not accepted are refused unless `any_outcome`.
        """
        done = await host.call_to_the_end(lambda verbs: verbs.apply(delegation_id, any_outcome=any_outcome))
        return ApplyResult(
            delegation_id=done.id,
            repo=done.repo,
            outcome=done.outcome,
            files=list(done.files)[:200],
            already_applied=not done.files,
            undo=done.undo,
            warnings=list(done.warnings),
        )

    return apply_delegation


def _rerun(host: ToolHost) -> Any:
    @expected
    async def rerun_delegation(
        ctx: Ctx,
        delegation_id: Id | None = None,
        from_step: Annotated[
            RerunFrom,
            Field(
                description="'start': a new delegation. 'agent': take up one that failed. 'verify': judge the stored "
                "patch again, no model call."
            ),
        ] = "start",
        continue_from: Annotated[
            str | None,
            Field(description="Instead: go on with that one's change and talk."),
        ] = None,
        prompt_add: Annotated[
            str | None,
            Field(description="Said after the task; with continue_from said next, where none says why it was refuted."),
        ] = None,
        model: Annotated[str | None, Field(description="Another model.")] = None,
        base: Annotated[str | None, Field(description="From the start: another branch, tag or commit.")] = None,
        verify: Annotated[str | None, Field(description="Another command that judges the change.")] = None,
        setup: Annotated[str | None, Field(description="Another setup command.")] = None,
        wait_seconds: WaitSeconds = None,
    ) -> Delegation:
        """Do a delegation again: a new one with this one as its parent, or its last steps alone.

        After `refuted`, `continue_from` is cheaper: the worker goes on where it stopped.
        """
        key = key_of(ctx, "rerun_delegation")
        changes = {"model": model, "base": base, "verify": verify, "setup": setup, "key": key}

        def again(verbs: Service) -> Started:
            if (delegation_id is None) == (continue_from is None):
                raise UsageError("give delegation_id to do it again, or continue_from to go on: one of them")
            if delegation_id is not None:
                return verbs.rerun(delegation_id, start_at=from_step, prompt_add=prompt_add, **changes)
            if from_step != "start":
                raise UsageError("continue_from makes a new delegation: leave out from_step")
            return verbs.go_on(str(continue_from), added=prompt_add, **changes)

        started = await host.call_to_the_end(again)
        return await waited(host, started.id, waiting_seconds(wait_seconds, ctx), ctx)

    return rerun_delegation


async def waited(host: ToolHost, delegation_id: str, seconds: float, ctx: Ctx) -> Delegation:
    """How it stands after waiting for its end, for so long at most."""
    notes = await host.wait([delegation_id], seconds, ctx)
    view = await host.call(lambda verbs: view_of(verbs.summary(delegation_id), verbs.settings.home))
    return view.model_copy(update={"warnings": [for_tools(said) for said in (*view.warnings, *notes)]})
