"""The records of delegations: which may go in time, and which stay because somebody may still need them.

Nothing goes unless a limit is set. Whatever the limits say, a record stays while its delegation has not ended, while
its change waits to be applied, while its tree is there, and while a rerun, a night, a comparison or a set that is kept
refers to it. What went is noted beside the records, so that whoever asks for it is told.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from delegation.checkout.git import ask_git
from delegation.checkout.ledger import Ledger
from delegation.checkout.publish import commit_at
from delegation.errors import DelegateError
from delegation.home import Home
from delegation.kept_refs import clear_refs
from delegation.receipt import FREELY_APPLIED
from delegation.records import RecordStore
from delegation.records.applied import applied_of
from delegation.records.history import HistoryRow, read
from delegation.records.index import History
from delegation.records.removed import Removed, note_removed
from delegation.records.retention import GIB, RecordPolicy

DAY_SECONDS = 24 * 3600.0
_GOING = ".going-"
_ID = re.compile(rb"(?:dg|cx|gm|dsh|rd)-\d{8}t\d{9}-[0-9a-z]{4}")


@dataclass(frozen=True)
class Decided:
    """One record that went or would go, or one that the limits would take and that stays; and why. `remarks` say what
    of it went from or stays in its repository, and what no longer works."""

    id: str
    number: int | None
    reason: str
    size_bytes: int
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pruned:
    removed: tuple[Decided, ...] = ()
    kept: tuple[Decided, ...] = ()
    has_limits: bool = True

    @property
    def freed_bytes(self) -> int:
        return sum(each.size_bytes for each in self.removed)


def prune(home: Home, policy: RecordPolicy, *, only_look: bool = False) -> Pruned:
    """Remove the records that the limits take and that nobody needs; oldest first."""
    if not home.delegations.is_dir():
        return Pruned(has_limits=policy.has_limits)
    if not only_look:
        _finish_earlier(home)
    if not policy.has_limits:
        return Pruned(has_limits=False)
    rows = list(History(home).rows())
    sizes = {row.id: _size_bytes(home.delegations / row.id) for row in rows}
    taken = dict(_taken(rows, sizes, policy))
    needed = _needed(home, rows, taken)
    by_id = {row.id: row for row in rows}
    decided = {name: Decided(name, by_id[name].number, why, sizes[name]) for name, why in taken.items()}
    going = [decided[name] for name in sorted(taken, key=_age) if name not in needed]
    if only_look:
        going = [replace(each, remarks=_remarks(home, by_id[each.id], only_look=True)) for each in going]
    else:
        going = [done for each in going if (done := _removed(home, by_id[each.id], each)) is not None]
        History(home).forget_removed()
    kept = [
        Decided(name, each.number, needed[name], each.size_bytes) for name, each in decided.items() if name in needed
    ]
    return Pruned(tuple(going), tuple(sorted(kept, key=lambda each: _age(each.id))))


def _age(delegation_id: str) -> str:
    return delegation_id.split("-", 1)[1]


def _taken(rows: Collection[HistoryRow], sizes: Mapping[str, int], policy: RecordPolicy) -> Iterator[tuple[str, str]]:
    """What the limits take, newest first, with the limit that does."""
    now, total = datetime.now(UTC), 0
    for place, row in enumerate(rows, 1):
        total += sizes[row.id]
        days = None if row.ended_at is None else (now - row.ended_at).total_seconds() / DAY_SECONDS
        if policy.days is not None and days is not None and days > policy.days:
            yield row.id, f"ended {days:.1f} days ago, and the limit is {policy.days:g}"
        elif policy.count is not None and place > policy.count:
            yield row.id, f"{policy.count} newer ones are kept"
        elif policy.budget_bytes is not None and total > policy.budget_bytes:
            yield row.id, f"newer ones take the {policy.budget_bytes / GIB:g} GiB that records may take"


def _needed(home: Home, rows: Collection[HistoryRow], taken: Mapping[str, str]) -> dict[str, str]:
    """Of what the limits take, what stays and why; then what those refer to, and so on."""
    trees = {entry.delegation_id for entry in Ledger(home).entries() if not entry.removed}
    named = _named_by_larger_runs(home)
    needed = {
        row.id: why for row in rows if row.id in taken and (why := _why_needed(home, row, trees, named)) is not None
    }
    referring = {row.id: _refers_to(home, row) for row in rows}
    open_names = [name for name in referring if name not in taken or name in needed]
    while open_names:
        name = open_names.pop()
        for other in referring[name]:
            if other in taken and other not in needed:
                needed[other] = f"{name} refers to it, and is kept"
                open_names.append(other)
    return needed


def _why_needed(home: Home, row: HistoryRow, trees: Collection[str], named: Mapping[str, str]) -> str | None:
    if row.problem is not None:
        return "it cannot be read, so nobody knows whether it is needed"
    if row.outcome is None:
        return "it has not ended"
    if row.files is not None and row.outcome in FREELY_APPLIED and not row.applied:
        return f"its change is {row.outcome} and was not applied"
    if row.files is not None and row.applied and _was_taken_back(home.delegations / row.id, row.repo):
        return "its change was applied and then taken back: it can be applied again"
    if row.id in trees:
        return "its tree is still there"
    return named.get(row.id)


def _was_taken_back(folder: Path, repo: str | None) -> bool:
    """Whether a change that came home is there no more: on no branch that it was given, and it fits the files again.

    False where nobody can tell: its repository is away, or git cannot say.
    """
    patch = folder / "patch.diff"
    if repo is None or not Path(repo).is_dir() or not patch.is_file():
        return False
    try:
        branches = {each.where for each in applied_of(folder) if each.how == "branch"}
        if any(commit_at(Path(repo), f"refs/heads/{name}") for name in branches):
            return False
        return ask_git("apply", "--check", "--whitespace=nowarn", str(patch.resolve()), cwd=Path(repo)).exit_code == 0
    except DelegateError:
        return False


def _refers_to(home: Home, row: HistoryRow) -> set[str]:
    """The one that it was made from, and those that were applied together with it."""
    together = {name for each in applied_of(home.delegations / row.id) for name in each.ids} if row.applied else set()
    return (together | ({row.parent_id} if row.parent_id else set())) - {row.id}


def _named_by_larger_runs(home: Home) -> dict[str, str]:
    """Delegations that stand in a file of a night or a comparison that is kept."""
    found: dict[str, str] = {}
    for folder, what in ((home.nights, "night"), (home.comparisons, "comparison")):
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                run = path.relative_to(folder).parts[0]
                found |= {name.decode(): f"the {what} {run} has it" for name in _ID.findall(path.read_bytes())}
    return found


def _removed(home: Home, row: HistoryRow, decided: Decided) -> Decided | None:
    """Its refs first, while there is a record of them; then noted, then aside at once, then away: a crash leaves a
    record whole or not at all. None where it has begun again since it was looked at."""
    store = RecordStore(home)
    now = read(store, row.id).row
    if now.outcome is None or now.problem is not None:
        return None
    remarks = _remarks(home, now, only_look=False)
    note_removed(
        home,
        Removed(
            id=row.id,
            number=row.number,
            outcome=row.outcome,
            created_at=row.created_at or datetime.now(UTC),
            removed_at=datetime.now(UTC),
            reason=decided.reason,
        ),
    )
    aside = home.delegations / f"{_GOING}{row.id}"
    store.folder(row.id).rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
    return replace(decided, remarks=remarks)


def _remarks(home: Home, row: HistoryRow, *, only_look: bool) -> tuple[str, ...]:
    folder = RecordStore(home).folder(row.id)
    could_undo = any(folder.glob("*undo*.diff")) or (row.isolation == "in_place" and row.files is not None)
    undo = ("the undo command that `apply` printed no longer works",) if could_undo else ()
    return (*clear_refs(row, only_look=only_look), *undo)


def _finish_earlier(home: Home) -> None:
    for path in home.delegations.glob(f"{_GOING}*"):
        shutil.rmtree(path, ignore_errors=True)


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total
