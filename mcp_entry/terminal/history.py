"""The verbs that look back over many delegations: stats, export, prune."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from delegation.errors import UsageError
from delegation.records.wording import count
from mcp_entry.terminal.common import AsJson, print_json, print_line, say, service
from mcp_entry.terminal.exits import OK
from mcp_entry.terminal.filtering import NO_FILTER, Filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delegation.kept_records import Decided
    from delegation.records.statistics import Part

_NAMED = 3  # ids in a line of what stays; `--json` has all


def stats(
    *,
    by: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            show_default=False,
            help="day, model, repo, agent, outcome, lane or bucket; several by commas. Default day,model.",
        ),
    ] = None,
    filters: Filters = NO_FILTER,
    json: AsJson = False,
) -> int:
    """What was delegated and what came of it: counts, verified rate, tokens, cost by kind, median seconds."""
    parts = _parts(by)
    verbs = service(at_work=True)
    found = verbs.past.statistics(verbs.past.filter(**filters.words), parts)
    if json:
        print_json(found)
        return OK
    from mcp_entry.terminal.shown.history import show_statistics
    from mcp_entry.terminal.shown.render import out

    show_statistics(out(), found)
    if found.unreadable:
        are = "is" if found.unreadable == 1 else "are"
        say(f"{count(found.unreadable, 'record')} cannot be read and {are} left out; `delegate list` names them")
    return OK


def _parts(given: list[str] | None) -> "list[Part]":
    from delegation.records.statistics import BY_DEFAULT, PARTS

    words = [word for each in given or () for word in each.replace(",", " ").split()]
    if unknown := [word for word in words if word not in PARTS]:
        raise UsageError(f"--by {unknown[0]!r}: it is one of {', '.join(PARTS)}")
    return [part for word in dict.fromkeys(words) for part in PARTS if part == word] or list(BY_DEFAULT)


def export(
    *,
    format_: Annotated[
        Literal["jsonl", "csv", "sqlite"], Parameter(name="--format", help="Lines of JSON, a table, or a database.")
    ] = "jsonl",
    out: Annotated[
        Path | None,
        Parameter(show_default=False, help="The file; default standard output, for sqlite delegations.db here."),
    ] = None,
    filters: Filters = NO_FILTER,
    json: AsJson = False,
) -> int:
    """The history for other programs. A file is written whole or not at all, and is for your eyes only (mode 600)."""
    from delegation.records.export import DATABASE

    verbs = service(at_work=True)
    wanted = verbs.past.filter(**filters.words)
    target = Path(DATABASE) if out is None and format_ == "sqlite" else out
    if target is None:
        if json:
            raise UsageError("--json says what was written to a file: name it with --out FILE")
        sys.stdout.reconfigure(encoding="utf-8", newline="")  # pyright: ignore[reportAttributeAccessIssue]  # a text stream
        verbs.past.write(wanted, format_, sys.stdout)
        sys.stdout.flush()
        return OK
    path = verbs.settings.path(str(target))
    number = verbs.past.export(wanted, format_, path)
    if json:
        print_json({"path": str(path), "format": format_, "delegations": number})
    else:
        say(f"{count(number, 'delegation')} written to {path}")
    return OK


def prune(
    *,
    older_than: Annotated[
        float | None, Parameter(show_default=False, help="Days since its end; default the setting.")
    ] = None,
    keep: Annotated[
        int | None, Parameter(show_default=False, help="Keep this many of the newest; default the setting.")
    ] = None,
    budget_gb: Annotated[
        float | None, Parameter(show_default=False, help="Disk space (GiB) of all records; default the setting.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(name="--dry-run", negative="", show_default=False, help="Only say what would go.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Clear away records of ended delegations, never one that somebody may still need."""
    verbs = service()
    done = verbs.past.prune(only_look=dry_run, days=older_than, count=keep, budget_gb=budget_gb)
    if json:
        print_json({"removed": [vars(each) for each in done.removed], "kept": [vars(each) for each in done.kept],
                    "freed_bytes": done.freed_bytes, "dry_run": dry_run})  # fmt: skip
        return OK
    for each in done.removed:
        print_line(f"{'would go' if dry_run else 'removed':<8}  {each.id}  {each.reason}")
        for remark in each.remarks:
            print_line(f"          {remark}")
    _say_kept(done.kept)
    if not done.has_limits:
        say("no limit is set, so everything stays: give --older-than, --keep or --budget-gb, or set one")
    elif not done.removed:
        say("nothing would go" if dry_run else "nothing went")
    return OK


def _say_kept(kept: "Sequence[Decided]") -> None:
    """One line for each reason, with some of the ids; `--json` has all."""
    for reason in dict.fromkeys(each.reason for each in kept):
        ids = [each.id for each in kept if each.reason == reason]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        say(f"kept {', '.join(ids[:_NAMED])}{more}: {reason}")
