"""The verbs that read what has been kept, and need no stack: list, show, patch, transcript."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from delegation.errors import NotFoundError, UsageError
from delegation.records import Summary
from mcp_entry.terminal.common import AsJson, Id, print_json, say, service
from mcp_entry.terminal.exits import OK
from mcp_entry.terminal.filtering import NO_FILTER, Filters
from mcp_entry.verbs.progress import receipt_of

if TYPE_CHECKING:
    from delegation.records.history import HistoryRow
    from delegation.records.timeline import Moment
    from mcp_entry.verbs.service import Service


def list_(
    *,
    limit: Annotated[int, Parameter(help="How many; 0 means all.")] = 20,
    filters: Filters = NO_FILTER,
    json: AsJson = False,
) -> int:
    """Newest first, from the disk: it works with the stack down. What cannot be read is listed as such."""
    if limit < 0:
        raise UsageError(f"--limit {limit}: give a whole number, 0 for all")
    from mcp_entry.verbs.listed import line_of

    verbs = service(at_work=True)
    wanted = verbs.past.filter(**filters.words)
    found, runs = verbs.past.summaries(wanted, limit or None), verbs.stack_runs
    if json:
        lines = [line_of(summary).model_dump(mode="json") for summary in found]
        print_json({"delegations": lines, "stack_running": runs})
    elif not found and filters != NO_FILTER:
        say("no delegation fits")
    else:
        from mcp_entry.terminal.shown.render import out, show_list

        show_list(out(), found, stack_runs=runs)
    return OK


def show(
    which: Id,
    *,
    follow: Annotated[
        bool, Parameter(name="--follow", negative="", show_default=False, help="Show progress until it ends.")
    ] = False,
    json: AsJson = False,
) -> int:
    """The receipt, or where it stands; its timeline, and what was made from it. Exit code 0 whatever the outcome."""
    verbs = service(at_work=True)
    if follow:
        from mcp_entry.terminal.follow import follow as until_it_ends

        until_it_ends(verbs, verbs.identify(which))
    summary = verbs.summary(which)
    if summary.problem:
        raise NotFoundError(f"the record of {summary.id!r} cannot be read: {summary.problem}")
    timeline, children = verbs.past.timeline(summary.id), verbs.past.children(summary.id)
    if json:
        print_json(_as_json(summary, timeline, children))
    else:
        _show(verbs, summary, timeline, children)
    return OK


def _as_json(summary: Summary, timeline: "list[Moment]", children: "list[HistoryRow]") -> dict[str, Any]:
    from mcp_entry.verbs.listed import line_of

    told = (receipt_of(summary) or line_of(summary)).model_dump(mode="json")
    moments = [each.model_dump(mode="json") for each in timeline]
    made = [{"id": each.id, "number": each.number, "state": each.state} for each in children]
    return {**told, "timeline": moments, "children": made}


def _show(verbs: "Service", summary: Summary, timeline: "list[Moment]", children: "list[HistoryRow]") -> None:
    from mcp_entry.terminal.shown.history import show_children, show_timeline
    from mcp_entry.terminal.shown.render import out, show_receipt, show_running

    console, receipt = out(), receipt_of(summary)
    if receipt:
        show_receipt(console, receipt, program_log=verbs.program_log(receipt.id))
    else:
        show_running(console, summary, stack_runs=verbs.stack_runs)
    show_timeline(console, timeline)
    show_children(console, children)


def patch(which: Id, *, json: AsJson = False) -> int:
    """The change, byte for byte when piped, in colour on a terminal."""
    found = service(at_work=True).patch(which)
    content = found.path.read_bytes()
    if json:
        print_json({**vars(found), "patch": content.decode("utf-8", errors="replace")})
    elif sys.stdout.isatty():
        from mcp_entry.terminal.shown.render import out, show_diff

        show_diff(out(), content.decode("utf-8", errors="replace"))
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    return OK


def transcript(
    which: Id,
    *,
    offset: Annotated[int, Parameter(help="First entry to print, from 0.")] = 0,
    limit: Annotated[int | None, Parameter(help="How many entries; none means all.")] = None,
    json: AsJson = False,
) -> int:
    """What the agent did, entry by entry. With --json one entry is one line."""
    from delegation.agents.transcript import entries_of

    verbs = service(at_work=True)
    entries, total = entries_of(verbs.transcript_path(which), offset=offset, limit=limit)
    if not entries and offset:
        say(f"nothing from entry {offset} on: the transcript has {total}, counted from 0")
    if json:
        for entry in entries:
            print_json(entry.raw)
        return OK
    from rich.text import Text

    from mcp_entry.terminal.shown.render import out, printable

    console = out()
    for entry in entries:
        console.print(Text(printable(f"[{entry.index}] {entry.heading}"), style="bold"))
        console.print(Text(printable(entry.text)))
    return OK
