"""An agent on an endpoint that the caller names for one delegation."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of, waiting_seconds
from mcp_entry.mcp_server.views import Delegation
from mcp_entry.tools.delegations import WaitSeconds, waited
from mcp_entry.verbs.cards import checked_card

GROUP = "delegations"


def tools(host: ToolHost) -> Iterable[Tool]:
    """The one tool, served by this host."""
    yield Tool("delegate_to_provider", "Delegate to an endpoint of your own", _provider(host), read_only=False)


def _provider(host: ToolHost) -> Any:
    @expected
    async def delegate_to_provider(
        ctx: Ctx,
        provider_url: Annotated[str, Field(description="Its last part (messages, chat/completions) says the format.")],
        api_key: Annotated[str, Field(description="Kept only for this delegation; '' where none is needed.")],
        model: Annotated[str, Field(description="As the provider calls it.")],
        task: Annotated[str, Field(description="Complete in itself.")],
        agent_name: Annotated[str | None, Field(description="A Markdown agent; none: the built-in coder.")] = None,
        workdir: Annotated[str | None, Field(description="Repository or folder; none: this project.")] = None,
        verify: Annotated[str | None, Field(description="Shell command that judges the change.")] = None,
        max_turns: Annotated[int | None, Field(ge=1, le=150)] = None,
        max_tokens: Annotated[int | None, Field(ge=1, description="Output tokens per reply.")] = None,
        timeout_seconds: Annotated[int | None, Field(ge=1, description="For the agent, from its start.")] = None,
        wait_seconds: WaitSeconds = None,
    ) -> Delegation:
        """Hand a piece of work to an agent on any OpenAI- or Anthropic-compatible endpoint, named in this call.

        Never fails over to another model. The key is removed when the delegation is over.
        """
        verbs = await host.call(lambda verbs: verbs)
        fields = {
            "task": task, "repo": verbs.workdir(workdir), "agent": agent_name, "model": model, "verify": verify,
            "max_turns": max_turns, "max_tokens": max_tokens, "timeout_seconds": timeout_seconds,
            "provider_url": provider_url, "key": key_of(ctx, "delegate_to_provider"),
        }  # fmt: skip
        card = checked_card(fields, "the arguments")
        started = await host.call_to_the_end(
            lambda verbs: verbs.submit(card, tool="delegate_to_provider", provider_key=api_key.strip())
        )
        return await waited(host, started.id, waiting_seconds(wait_seconds, ctx), ctx)

    return delegate_to_provider
