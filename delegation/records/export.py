"""The history as a file for other programs: lines of JSON, a table for a spreadsheet, or a database.

Secrets that this home keeps are masked once more on the way out, whatever a record holds.
"""

import csv
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, get_args

from delegation.errors import UsageError
from delegation.masking import Mask
from delegation.receipt import Cost, CostKind
from delegation.records.history import HistoryRow, Read

Format = Literal["jsonl", "csv", "sqlite"]
DATABASE = "delegations.db"
PREVIEW_CHARACTERS = 500
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_FAILED = ("failed", "cancelled")
_TABLE = """
CREATE TABLE delegations (
    id INTEGER PRIMARY KEY,
    tool TEXT, backend TEXT, model TEXT, task TEXT,
    started_at TEXT, ended_at TEXT,
    iterations INTEGER, success INTEGER, result_preview TEXT,
    prompt_tokens INTEGER, completion_tokens INTEGER, total_tokens INTEGER,
    cost_usd REAL, cost_kind TEXT,
    delegation_id TEXT NOT NULL UNIQUE, number INTEGER, outcome TEXT, failure_kind TEXT, verdict TEXT,
    repo TEXT, agent TEXT, lane TEXT, parent_id TEXT, night_id TEXT,
    agent_seconds REAL, total_seconds REAL, problem TEXT
)
"""


def facts_of(found: Read, mask: Mask) -> dict[str, Any]:
    """One delegation as plain data: its row and its texts, secrets masked."""
    return mask.plain({**found.row.model_dump(mode="json"), **found.texts.model_dump(mode="json")})


def write_jsonl(reads: Iterable[Read], stream: IO[str], mask: Mask) -> int:
    """One object a line; returns how many."""
    number = 0
    for number, found in enumerate(reads, 1):  # noqa: B007  # the last one is the count
        stream.write(json.dumps(facts_of(found, mask), ensure_ascii=True) + "\n")
    return number


def write_csv(reads: Iterable[Read], stream: IO[str], mask: Mask) -> int:
    """A head and one row for each (RFC 4180). A text that a spreadsheet would run as a formula begins with `'`."""
    columns = [*_flat(HistoryRow(id="", state="")), "task", "answer", "claim"]
    table = csv.writer(stream, lineterminator="\r\n")
    table.writerow(columns)
    number = 0
    for number, found in enumerate(reads, 1):  # noqa: B007
        facts = mask.plain({**_flat(found.row), **found.texts.model_dump(mode="json")})
        table.writerow([_cell(facts[name]) for name in columns])
    return number


def write_sqlite(reads: Iterable[Read], path: Path, mask: Mask) -> int:
    """A new database with the table `delegations`. `success` is 1 where the work finished, 0 where it failed or was
    cancelled, and null while it goes on; the verdict stands beside it."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(_TABLE)
        cursor = database.executemany(
            f"INSERT INTO delegations VALUES ({','.join('?' * 28)})",  # only marks
            _records(reads, mask),
        )
        return max(0, cursor.rowcount)


def export(reads: Iterable[Read], kind: Format, out: Path, mask: Mask) -> int:
    """Write the file aside and rename it: whoever reads `out` has the old one or the whole new one. Mode 600.

    Raises UsageError where it cannot be written.
    """
    try:
        descriptor, aside = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise UsageError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    try:
        number = _written(reads, kind, descriptor, Path(aside), mask)
        Path(aside).replace(out)
    except OSError as error:
        raise UsageError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        raise UsageError(f"--out {str(out)!r} cannot be written: {error}") from error
    finally:
        Path(aside).unlink(missing_ok=True)
    return number


def _written(reads: Iterable[Read], kind: Format, descriptor: int, aside: Path, mask: Mask) -> int:
    if kind == "sqlite":
        os.close(descriptor)
        return write_sqlite(reads, aside, mask)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
        number = write_jsonl(reads, stream, mask) if kind == "jsonl" else write_csv(reads, stream, mask)
        stream.flush()
        os.fsync(stream.fileno())
        return number


def _records(reads: Iterable[Read], mask: Mask) -> Iterator[tuple[object, ...]]:
    """Those whose running number is free first: the database gives the others theirs."""
    taken: set[int] = set()
    later: list[Read] = []
    for found in reads:
        number = found.row.number
        if number is None or number in taken:  # of a damaged record, or of a home that was copied into this one
            later.append(found)
            continue
        taken.add(number)
        yield _record(number, found, mask)
    yield from (_record(None, found, mask) for found in later)


def _record(number: int | None, found: Read, mask: Mask) -> tuple[object, ...]:
    row, texts = found.row, found.texts
    cost = row.costs[0] if len(row.costs) == 1 else None
    tokens = (row.input_tokens, row.output_tokens)
    values: tuple[object, ...] = (
        number, row.tool, row.backend, row.model_used or row.model, texts.task,
        _time(row.created_at), _time(row.ended_at),
        row.turns, None if row.outcome is None else int(row.outcome not in _FAILED),
        (texts.answer or texts.claim or "")[:PREVIEW_CHARACTERS] or None,
        *tokens, None if None in tokens else sum(filter(None, tokens)),
        cost.amount_usd if cost else None, cost.kind if cost else "mixed" if row.costs else "unknown",
        row.id, row.number, row.outcome, row.failure_kind, row.verdict,
        row.repo, row.agent, row.lane, row.parent_id, row.night_id,
        row.agent_seconds, row.total_seconds, row.problem,
    )  # fmt: skip
    return tuple(_whole(mask.text(value)) if isinstance(value, str) else value for value in values)


def _flat(row: HistoryRow) -> dict[str, Any]:
    """Lists as words, money as one column for each kind, empty where there was none of it."""
    facts = row.model_dump(mode="json", exclude={"costs", "flags", "tags"})
    return {
        **facts,
        "flags": " ".join(row.flags),
        "tags": " ".join(row.tags),
        **{f"cost_{kind}": _money(row.costs, kind) for kind in get_args(CostKind)},
    }


def _money(costs: Iterable[Cost], kind: CostKind) -> float | str | None:
    """An amount, or `yes` for a kind that has none."""
    of_kind = [cost for cost in costs if cost.kind == kind]
    if not of_kind:
        return None
    return of_kind[0].amount_usd if of_kind[0].amount_usd is not None else "yes"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    text = _whole(value).replace("\0", "\ufffd")
    return f"'{text}" if text.lstrip(" ").startswith(_BEGINS_A_FORMULA) else text


def _whole(text: str) -> str:
    """Without halves of characters, which no file takes."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()
