"""Tools that read: a cheap model answers about files, or without any, and a tight answer comes back."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from pydantic import Field

from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected
from mcp_entry.verbs.service import Service

if TYPE_CHECKING:  # a server that starts shows its tools before it needs what they use
    from delegation.reading.admission import Wish
    from delegation.reading.question import Answer

GROUP = "reading"
_HEARTBEAT_SECONDS = 15.0

Prompt = Annotated[str, Field(description="What you want to know, in what form, how long.")]
MaxOutput = Annotated[int | None, Field(ge=1, description="At least 200; default 4096.")]
Schema = Annotated[dict[str, Any] | None, Field(description="The answer is JSON that fits it.")]
Model = Annotated[str | None, Field(description="A provider or an alias.")]


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool("analyze", "Ask about a folder", _analyze(host), read_only=True)
    yield Tool("query", "Ask without files", _query(host), read_only=True)
    yield Tool("resume", "Ask further", _resume(host), read_only=True)


def _analyze(host: ToolHost) -> Any:
    @expected
    async def analyze(
        ctx: Ctx,
        work_dir: Annotated[str, Field(description="Folder or file, absolute. Its files are sent out.")],
        prompt: Prompt,
        max_output_tokens: MaxOutput = None,
        json_schema: Schema = None,
        model: Model = None,
        refuse_if_too_large: Annotated[bool, Field(description="Instead of reading in parts.")] = False,
    ) -> str:
        """Have a cheap model read a whole folder and answer, with checked PATH:START-END.

        Secrets, ignored and binary files are left out. The first line holds `session=ID`. Read small files yourself.
        """
        wish = _wish(max_output_tokens, json_schema, model, refuse=refuse_if_too_large)
        return await _answered(
            host,
            ctx,
            lambda verbs, given_up: verbs.reading.analyze(
                Path(verbs.workdir(work_dir)), prompt, wish, cancelled=given_up
            ),
        )

    return analyze


def _query(host: ToolHost) -> Any:
    @expected
    async def query(
        ctx: Ctx,
        prompt: Prompt,
        max_output_tokens: MaxOutput = None,
        json_schema: Schema = None,
        model: Model = None,
    ) -> str:
        """Ask a cheap model one question without files."""
        wish = _wish(max_output_tokens, json_schema, model)
        return await _answered(host, ctx, lambda verbs, given_up: verbs.reading.query(prompt, wish, cancelled=given_up))

    return query


def _resume(host: ToolHost) -> Any:
    @expected
    async def resume(
        ctx: Ctx,
        session_id: Annotated[str, Field(description="The word after `session=` in an earlier answer.")],
        prompt: Prompt,
        max_output_tokens: MaxOutput = None,
        json_schema: Schema = None,
    ) -> str:
        """Ask further: the same model, with the same files as they were then and all that was said."""
        wish = _wish(max_output_tokens, json_schema, None)
        return await _answered(
            host, ctx, lambda verbs, given_up: verbs.reading.resume(session_id, prompt, wish, cancelled=given_up)
        )

    return resume


def _wish(limit: int | None, schema: dict[str, Any] | None, model: str | None, *, refuse: bool = False) -> "Wish":
    from delegation.reading.admission import Wish

    return Wish(limit, schema, "refuse" if refuse else "split", model)


def _asked(verbs: Service, ask: "Callable[[Service, Event], Answer]", given_up: Event) -> "Answer":
    verbs.reading.lives_on = True
    return ask(verbs, given_up)


async def _answered(host: ToolHost, ctx: Ctx, ask: "Callable[[Service, Event], Answer]") -> str:
    """The text. A call that is given up ends its request; one that takes long tells now and then that it lives."""
    given_up, done = Event(), anyio.Event()

    async def tell() -> None:
        for count in range(1, 10_000):
            with anyio.move_on_after(_HEARTBEAT_SECONDS):
                await done.wait()
                return
            await ctx.report_progress(count, None, "the reader has not answered yet")

    failure: Exception | None = None
    text = ""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            try:
                text = (await host.call(lambda verbs: _asked(verbs, ask, given_up))).text
            except Exception as error:
                failure = error  # raised outside of the group, which would wrap it
            done.set()
    finally:
        given_up.set()
    if failure is not None:
        raise failure
    return text
