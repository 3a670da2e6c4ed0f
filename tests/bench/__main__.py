"""`python -m tests.bench [NAME...] [--quick] [--json FILE] [--missing] [--page]`: rows beside their peers or limits.

Names are groups of rows; none means all of them. Not part of `make test`. With --json each group is written as soon as
it is measured, beside what the file already holds, so that a run can be taken up again: `--missing` leaves out what is
there. Seconds are this machine's and this moment's; ratios and CPU seconds are what to compare.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench import adapters, chat, front, handover, idle, large, many, one, page
from tests.bench.machine import about
from tests.bench.rows import Row, table

GROUPS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "one": one.rows,
    "front": front.rows,
    "chat": chat.rows,
    "handover": handover.rows,
    "many": many.fifty,
    "growth": many.growth,
    "large": large.rows,
    "worktree": adapters.worktree,
    "packing": adapters.packing,
    "reading": adapters.reading,
    "slots": adapters.slots,
    "queued": many.queued,
    "idle": idle.rows,
}


def main() -> int:
    """Exit code 0, or 1 where a group could not be measured; an aim that is not met only shows in the table."""
    asked = _asked()
    kept = _kept(asked.json)
    names = [name for name in asked.names or GROUPS if not (asked.missing and name in kept)]
    failed = [name for name in names if not _measured(name, asked.quick, kept, asked.json)]
    rows = [Row.model_validate(_without_derived(row)) for name in GROUPS if name in kept for row in kept[name]["rows"]]
    print(table(rows))
    if asked.page and asked.json is not None and asked.json.exists():
        page.write(asked.json)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *GROUPS], metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="small numbers, for a small machine")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--missing", action="store_true", help="only groups that FILE does not hold yet")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md from FILE afterwards")
    return parser.parse_args()


def _measured(name: str, quick: bool, kept: dict[str, Any], file: Path | None) -> bool:
    print(f"{name} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        rows = list(GROUPS[name](quick))
    except Exception:
        traceback.print_exc()
        return False
    kept[name] = {
        "rows": [row.as_json() for row in rows], "seconds": round(time.monotonic() - began), "quick": quick,
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": about(),
    }  # fmt: skip
    print(table(rows), file=sys.stderr, flush=True)
    if file is not None:
        aside = file.with_suffix(".part")
        aside.write_text(json.dumps(kept, indent=1, allow_nan=False), encoding="utf-8")
        aside.replace(file)
    return True


def _kept(file: Path | None) -> dict[str, Any]:
    if file is None or not file.exists():
        return {}
    return {name: group for name, group in json.loads(file.read_text(encoding="utf-8")).items() if name in GROUPS}


def _without_derived(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("ratio", "aim", "met")}


if __name__ == "__main__":
    sys.exit(main())
