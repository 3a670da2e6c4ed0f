"""The rows of all records, quickly: what was read once is remembered in a file that may be thrown away at any time.

The records are the truth. A remembered row counts only while size, time and inode of every file that it came from are
as they were, so nobody has to keep the file up to date; where it is damaged or cannot be written, all is read anew.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from delegation.home import Home
from delegation.records.applied import NAME as APPLIED
from delegation.records.history import HistoryRow, Read, Texts, read
from delegation.records.store import RecordStore

NAME = "index.sqlite"
_FORMAT = 4  # raise it when rows are read from the same files in another way
_FILES = ("entry.json", "request.json", "status.json", "receipt.json", APPLIED)
_YOUNG_NS = 2_000_000_000  # a file changed so lately may change again without its time showing it
_AT_A_TIME = 500
_WAIT_SECONDS = 2.0


class History:
    """Reads the rows of one home's records."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._store = RecordStore(home)
        self._folder = str(home.delegations)

    def rows(self, ids: Sequence[str] | None = None) -> Iterator[HistoryRow]:
        """In the order of the ids; all, newest first, where none are given. A damaged record has a `problem`."""
        return (found.row for found in self.reads(ids, with_texts=False))

    def reads(self, ids: Sequence[str] | None = None, *, with_texts: bool = True) -> Iterator[Read]:
        """The same with their texts, or without them where nobody looks at them."""
        wanted = self._store.ids() if ids is None else ids
        with contextlib.closing(_Remembered(self._home.delegations / NAME)) as remembered:
            if ids is None:
                remembered.forget_all_but(wanted)
            for start in range(0, len(wanted), _AT_A_TIME):
                yield from self._some(remembered, wanted[start : start + _AT_A_TIME], with_texts=with_texts)

    def forget_removed(self) -> None:
        """Nothing of a record that is gone stays in the file."""
        with contextlib.closing(_Remembered(self._home.delegations / NAME)) as remembered:
            remembered.forget_all_but(self._store.ids())

    def _some(self, remembered: "_Remembered", ids: Sequence[str], *, with_texts: bool) -> list[Read]:
        known = remembered.found(ids, with_texts=with_texts)
        reads: list[Read] = []
        fresh: list[tuple[str, str, Read]] = []
        for name in ids:
            stamp, is_young = self._stamp(name)
            earlier = known.get(name)
            if earlier and earlier[0] == stamp:
                reads.append(earlier[1])
                continue
            found = read(self._store, name)
            reads.append(found)
            if found.row.problem is None and not is_young and self._stamp(name)[0] == stamp:
                fresh.append((name, stamp, found))
        remembered.keep(fresh)
        return reads

    def _stamp(self, name: str) -> tuple[str, bool]:
        """What says that a record's files are as they were, and whether one of them was changed a moment ago."""
        parts: list[str] = []
        newest = 0
        for file in _FILES:
            try:
                found = os.stat(f"{self._folder}/{name}/{file}")  # noqa: PTH116  # fifty thousand of them for a list
            except OSError:
                parts.append("-")
                continue
            newest = max(newest, found.st_mtime_ns)
            parts.append(f"{found.st_mtime_ns}.{found.st_size}.{found.st_ino}")
        return " ".join(parts), time.time_ns() - newest < _YOUNG_NS


class _Remembered:
    """The file. Every way in which it can fail is the same as finding nothing in it."""

    def __init__(self, path: Path) -> None:
        self._connection: sqlite3.Connection | None = None
        if not path.parent.is_dir():
            return
        for _ in range(2):
            try:
                self._connection = _opened(path)
            except (sqlite3.OperationalError, OSError):
                return  # locked, read-only or full: another time
            except sqlite3.DatabaseError:
                with contextlib.suppress(OSError):
                    path.unlink()
            else:
                return

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def found(self, ids: Sequence[str], *, with_texts: bool) -> dict[str, tuple[str, Read]]:
        if self._connection is None:
            return {}
        marks = ",".join("?" * len(ids))
        texts = "texts" if with_texts else "NULL"
        query = f"SELECT id, stamp, facts, {texts} FROM rows WHERE id IN ({marks})"  # only marks
        try:
            found = self._connection.execute(query, ids).fetchall()
            return {name: (stamp, _read(facts, told)) for name, stamp, facts, told in found}
        except (sqlite3.Error, zlib.error, ValueError, TypeError):
            return {}

    def keep(self, fresh: Sequence[tuple[str, str, Read]]) -> None:
        if self._connection is None or not fresh:
            return
        lines = [
            (name, stamp, found.row.model_dump_json(exclude_defaults=True), _packed(found.texts))
            for name, stamp, found in fresh
        ]
        with contextlib.suppress(sqlite3.Error), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", lines)

    def forget_all_but(self, ids: Collection[str]) -> None:
        if self._connection is None:
            return
        try:
            there = set(ids)
            known = [name for (name,) in self._connection.execute("SELECT id FROM rows")]
            gone = [(name,) for name in known if name not in there]
            if gone:
                with self._connection:
                    self._connection.executemany("DELETE FROM rows WHERE id = ?", gone)
                self._connection.execute("VACUUM")
        except sqlite3.Error:
            return


def _packed(texts: Texts) -> bytes:
    return zlib.compress(texts.model_dump_json(exclude_none=True).encode(), 1)


def _read(facts: str, texts: bytes | None) -> Read:
    told = Texts() if texts is None else Texts.model_validate_json(zlib.decompress(texts))
    return Read(HistoryRow.model_validate_json(facts), told)


def _opened(path: Path) -> sqlite3.Connection:
    """Made private before anything is in it; one of another format is emptied."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _version():
            with connection:
                connection.execute("DROP TABLE IF EXISTS rows")
                connection.execute("CREATE TABLE rows (id TEXT PRIMARY KEY, stamp TEXT, facts TEXT, texts BLOB)")
                connection.execute(f"PRAGMA user_version = {_version()}")
        connection.execute("SELECT id FROM rows LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _version() -> int:
    """Another number for every other shape of a row."""
    shape = json.dumps([_FORMAT, _FILES, sorted(HistoryRow.model_fields), sorted(Texts.model_fields)])
    return int.from_bytes(hashlib.sha256(shape.encode()).digest()[:4], "big") >> 1
