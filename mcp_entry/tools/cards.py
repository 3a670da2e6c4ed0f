"""Tools for many cards at once: the verbs `cards` and `night`."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from pydantic import Field, SkipValidation

from delegation.errors import UsageError
from mcp_entry.mcp_server.night_views import NightView, SubmittedCards, begun, checked_only, night_view
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of
from mcp_entry.verbs.service import Service

if TYPE_CHECKING:  # with them come YAML and HTTP, which a list of tools does not need
    from delegation.night.terms import Terms
    from mcp_entry.verbs.night.nights import Night, Standing

GROUP = "cards"
_LOOK_SECONDS = 1.0


def tools(host: ToolHost) -> Iterable[Tool]:
    """All of the group, served by this host."""
    yield Tool("submit_cards", "Do many cards", _submit(host), read_only=False)
    yield Tool("poll_cards", "Ask how a night stands", _poll(host), read_only=True)


def _submit(host: ToolHost) -> Any:
    @expected
    async def submit_cards(
        ctx: Ctx,
        folder: Annotated[str | None, Field(description="Folder or file of cards (md, yaml, json, jsonl).")] = None,
        cards: Annotated[
            list[SkipValidation[dict[str, Any]]] | None,
            Field(
                description="Instead: cards as in files: task, repo, verify, id, depends_on, attempts, priority, ..."
            ),
        ] = None,
        check_only: Annotated[bool, Field(description="Only validate and show the plan.")] = False,
        at: Annotated[str | None, Field(description="HH:MM to begin; none: now.")] = None,
        every_night: Annotated[bool, Field(description="With `at`: every night, not once.")] = False,
        until: Annotated[str | None, Field(description="HH:MM from which nothing more begins.")] = None,
        budget_usd: Annotated[float | None, Field(description="Nothing more begins at this known cost.")] = None,
        in_flight: Annotated[int, Field(description="Delegations at a time.")] = 8,
        error_rate: Annotated[float, Field(description="Stop when more than this failed; 1 never.")] = 0.5,
        time_zone: str | None = None,
        name: Annotated[str | None, Field(description="The same name goes on with the same night.")] = None,
        off: Annotated[bool, Field(description="Only end every_night for this folder.")] = False,
    ) -> SubmittedCards:
        """Do many pieces of work in dependency order, each as a delegation of its own, with a report at the end.

        All cards are checked; broken ones are reported with file, line and key, and the others begin. What is done is
        not done twice when the same cards are submitted again that night. poll_cards tells how it stands.
        """
        given = {
            "until": until, "budget_usd": budget_usd, "in_flight": in_flight, "error_rate": error_rate,
            "time_zone": time_zone, "name": name,
        }  # fmt: skip
        if (folder is None) == (cards is None):
            raise UsageError("give either folder or cards")
        if every_night and at is None:
            raise UsageError("every_night needs at: the hour when it begins")
        key = key_of(ctx, "submit_cards")

        def begin(verbs: Service) -> SubmittedCards:
            if off:
                return _off(verbs, _source(verbs, folder, cards))
            from delegation.night.plan import plan_of
            from delegation.night.terms import terms_of
            from mcp_entry.verbs.night.nights import cards_for

            terms = terms_of({"cards": _source(verbs, folder, cards), **given})
            plan = plan_of(cards_for(verbs.settings, terms, at), verbs.settings)
            if check_only:
                return checked_only(plan)
            if all(card.passed_over for card in plan.cards):
                raise UsageError(f"no card can run: {'; '.join(problem.text for problem in plan.problems)[:4_000]}")
            asked = _asked(verbs, terms, at, key, every_night=every_night)
            return begun(plan, asked, verbs.settings.home, every_night=every_night)

        return await host.call_to_the_end(begin)

    return submit_cards


def _off(verbs: Service, source: str) -> SubmittedCards:
    from mcp_entry.verbs.night.nights import call_off

    return SubmittedCards(summary=str(call_off(verbs.settings, source)), whole=0, broken=[], cards=[])


def _source(verbs: Service, folder: str | None, cards: Sequence[object] | None) -> str:
    from mcp_entry.verbs.night.nights import cards_in_a_file

    if cards is None:
        return verbs.workdir(folder)
    if not cards:
        raise UsageError("cards is empty: give at least one")
    return cards_in_a_file(verbs.settings, cards, verbs.workdir(None))


def _asked(verbs: Service, terms: "Terms", at: str | None, key: str | None, *, every_night: bool) -> "Night":
    from mcp_entry.verbs.night.nights import ask_for_every, ask_for_one

    if every_night and at is not None:
        return ask_for_every(verbs.settings, terms, at, lambda _: None)
    return ask_for_one(verbs.settings, terms, at, lambda _: None, key)


def _poll(host: ToolHost) -> Any:
    @expected
    async def poll_cards(
        ctx: Ctx,
        night_id: Annotated[str, Field(description="From submit_cards.")],
        wait_seconds: Annotated[float, Field(ge=0, description="Wait until it has ended, for so long at most.")] = 0,
    ) -> NightView:
        """How a night stands: the outcome of each card once it has ended, else where each is.

        A card's delegation_id is for poll_delegations, apply_delegation and rerun_delegation.
        """
        found = await _waited(host, night_id, anyio.current_time() + wait_seconds, ctx)
        return await host.call(lambda verbs: night_view(verbs.settings, found))

    return poll_cards


async def _waited(host: ToolHost, night_id: str, deadline: float, ctx: Ctx) -> "Standing":
    told = ""
    while True:
        found = await host.call(lambda verbs: _standing(verbs, night_id))
        if found.has_ended or anyio.current_time() >= deadline:
            return found
        if (line := _summary(found)) != told:
            told = line
            await ctx.report_progress(len(found.children), None, line)
        await anyio.sleep(_LOOK_SECONDS)


def _standing(verbs: Service, night_id: str) -> "Standing":
    from mcp_entry.verbs.night.nights import standing_of

    return standing_of(verbs.settings, night_id)


def _summary(found: "Standing") -> str:
    from mcp_entry.verbs.night.standing import summary_of

    return summary_of(found)
