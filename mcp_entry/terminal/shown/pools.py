"""The pools of slots for a person."""

from datetime import datetime

from rich.console import Console

from delegation.slots.pool_lines import ChangeLine, PoolLine, Pools
from mcp_entry.terminal.shown.columns import show_columns

_CHANGES = 20


def show_pools(console: Console, found: Pools) -> None:
    """One line for each pool, then what changed lately, the newest first."""
    if not found.pools:
        return
    console.print()
    columns = ("  pool", "limit", "in use", "waiting", "state")
    show_columns(console, columns, [_row(line) for line in found.pools])
    if found.changes:
        console.print()
        show_columns(console, ("  changed", "pool", "what"), [_change(each) for each in found.changes[:_CHANGES]])


def _row(line: PoolLine) -> tuple[str, ...]:
    limit = "missing" if line.limit is None else str(line.limit)
    if line.cap is not None and line.cap != line.limit:
        limit = f"{line.cap} of {limit}{' (by hand)' if line.cap_set_by_hand else ''}"
    waiting = [(line.waiting_now, "now"), (line.waiting_night, "night")]
    shown = ", ".join(f"{count} {name}" for count, name in waiting if count) or "0"
    cooling = [f"{each.kind} until {_clock(each.until)}: {each.reason}" for each in line.cooldowns]
    return f"  {line.bucket}", limit, str(line.in_use), shown, "; ".join(cooling) or "open"


def _change(change: ChangeLine) -> tuple[str, ...]:
    return f"  {_clock(change.at)}", change.pool, f"{change.what} ({change.reason})"


def _clock(moment: datetime) -> str:
    """In the reader's own time."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
