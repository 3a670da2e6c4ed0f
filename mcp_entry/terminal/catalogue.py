"""The verbs that say what can be named in a card: agents, models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mcp_entry.terminal.common import AsJson, print_json, service
from mcp_entry.terminal.exits import OK

if TYPE_CHECKING:
    from mcp_entry.verbs.backend import Backend, ModelLine


def agents(
    *,
    repo: Annotated[
        Path | None, Parameter(help="Also the agents of this repository; none means the current folder.")
    ] = None,
    json: AsJson = False,
) -> int:
    """Agents by name, with the file or the program that each comes from."""
    from mcp_entry.verbs.backend import agents as found_agents

    settings = service().settings
    found = found_agents(settings, (repo or settings.cwd).expanduser().absolute())
    if json:
        print_json({"agents": [agent.model_dump() for agent in found]})
        return OK
    from mcp_entry.terminal.shown.render import out, show_table

    show_table(out(), ("agent", "source", "description"), [(a.name, a.source, a.description) for a in found])
    return OK


def models(
    *,
    ask: Annotated[bool, Parameter(help="Ask each endpoint whether it answers.")] = True,
    record: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="How each model has done so far, from your own delegations."),
    ] = False,
    cap: Annotated[
        str | None,
        Parameter(
            show_default=False,
            help="BUCKET=N: at most N of the bucket at once from now on; BUCKET=auto: as many as its endpoint takes.",
        ),
    ] = None,
    json: AsJson = False,
) -> int:
    """Models by alias, then the pools of slots they share. An endpoint is asked for its list of models only; nothing is
    spent."""
    if record:
        return _record(as_json=json)
    if cap is not None:
        return _set_cap(cap, as_json=json)
    from mcp_entry.verbs.backend import backend

    found = backend(service().settings, ask=ask)
    if json:
        print_json(found)
    else:
        _show(found)
    return OK


def _show(found: "Backend") -> None:
    from mcp_entry.terminal.common import say
    from mcp_entry.terminal.shown.render import out, show_table

    rows = [
        (f"{'* ' if m.is_default else '  '}{m.alias}", m.lane, m.base_url, m.problem or _state(m)) for m in found.models
    ]
    if rows:
        show_table(out(), ("  model", "lane", "endpoint", "state"), rows)
    else:
        out().print("no models")
    if found.pools is not None:
        from mcp_entry.terminal.shown.pools import show_pools

        show_pools(out(), found.pools)
    for warning in dict.fromkeys(warning for line in found.models for warning in line.warnings):
        say(f"warning: {warning}")
    if found.problem:
        say(found.problem)


def _state(line: "ModelLine") -> str:
    if not line.answers:
        return ""
    return "answers" if line.listed else "its endpoint answers, but does not list it"


def _set_cap(text: str, *, as_json: bool) -> int:
    from mcp_entry.terminal.common import say
    from mcp_entry.verbs.pools import set_cap

    said = set_cap(service().settings, text)
    if as_json:
        print_json({"done": said})
    else:
        say(said)
    return OK


def _record(*, as_json: bool) -> int:
    from delegation.records.track_record import track_record
    from mcp_entry.terminal.common import say

    verbs = service()
    found = track_record(verbs.records, str(verbs.settings.home.no_repository))
    if as_json:
        print_json(found)
        return OK
    from mcp_entry.terminal.shown.render import out
    from mcp_entry.terminal.shown.track_record import show_track_record

    show_track_record(out(), found)
    if found.unreadable:
        say(f"{found.unreadable} records cannot be read and are left out; `delegate list` names them")
    return OK
