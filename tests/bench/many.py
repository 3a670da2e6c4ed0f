"""Many delegations together: fifty at once, and hundreds through a few slots."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from delegation.card import Card
from delegation.models.buckets import queue_limit
from delegation.records import RecordStore
from delegation.records.standing import ended_receipt
from delegation.settings import load_settings
from deployments.launcher.runs import launched_runs
from mcp_entry.verbs.service import Service
from tests.bench.model import BRIEF_SECONDS, SLOW_SECONDS, Model, model
from tests.bench.rows import Aim, Row, at_most
from tests.bench.stacks import Bench, stack, temporary_folder
from tests.bench.usage import cpu_seconds, pss_mb, tree

_LONGEST_SECONDS = 3000.0


@dataclass
class Course:
    """What a crowd of delegations came to."""

    seconds: float = 0.0
    outcomes: list[str] = field(default_factory=list)
    server_cpu: float = 0.0
    database_cpu: float = 0.0
    all_cpu: float = 0.0
    most_processes: int = 0
    most_pss_mb: float = 0.0
    pss_per_run_mb: float | None = None

    @property
    def verified(self) -> int:
        return self.outcomes.count("verified")


def fifty(quick: bool) -> Iterator[Row]:
    """All at once, with an agent that waits 20 s. SQLite is measured beside it."""
    count = 10 if quick else 50
    ours, sqlite = _at_once(count), _at_once(count, DELEGATE_DATABASE="sqlite")
    name = f"{count} at once, agent waits {SLOW_SECONDS:.0f} s"
    counted = {outcome: ours.outcomes.count(outcome) for outcome in set(ours.outcomes)}
    yield Row(
        name=f"{name}: until the last has ended", unit="s", ours=ours.seconds,
        peers={"ideal": SLOW_SECONDS, "SQLite": sqlite.seconds}, against="ideal", note=str(counted),
    )  # fmt: skip
    yield Row(
        name=f"{name}: not verified", unit="runs", ours=float(count - ours.verified),
        peers={"SQLite": float(count - sqlite.verified)}, aims=at_most(0),
    )  # fmt: skip
    yield Row(
        name=f"{name}: memory of one (PSS)", unit="MB", ours=ours.pss_per_run_mb,
        peers={"SQLite": sqlite.pss_per_run_mb} if (sqlite.pss_per_run_mb or 0) > 0 else {}, aims=at_most(30),
        note=f"{ours.most_processes} alive together, monitor and client too; everything {ours.most_pss_mb:.0f} MB",
    )  # fmt: skip
    yield Row(
        name=f"{name}: CPU of the server, each", unit="CPU s", ours=ours.server_cpu / count,
        peers={"SQLite": sqlite.server_cpu / count}, aims=at_most(0.5),
        note=f"database {ours.database_cpu / count:.2f}, everything {ours.all_cpu / count:.2f}",
    )  # fmt: skip


def queued(quick: bool) -> Iterator[Row]:
    """Five hundred through six slots."""
    count, slots = (40 if quick else 500), 6
    ideal = count * 2 * BRIEF_SECONDS / slots
    with temporary_folder() as place, model("brief", place) as answering:
        course = _course(count, answering, DELEGATE_CONCURRENCY_OPENAI_BENCH=str(slots), DELEGATE_MAX_QUEUE="1000")
    name, limit = f"{count} queued through {slots} slots", queue_limit(slots, ())
    yield Row(
        name=f"{name}: until the last has ended", unit="s", ours=course.seconds, peers={"ideal": ideal},
        against="ideal", note=f"not verified {count - course.verified}; {course.all_cpu / count:.2f} CPU s each",
    )  # fmt: skip
    yield Row(
        name=f"{name}: processes at once", unit="runs", ours=float(course.most_processes),
        peers={"queue's limit": float(limit)}, against="queue's limit", aims=(Aim(of="ratio", most=1.0),),
    )  # fmt: skip
    yield Row(
        name=f"{name}: memory of everything (PSS)", unit="MB", ours=course.most_pss_mb, aims=at_most(1500),
    )  # fmt: skip


def _at_once(count: int, **settings: str) -> Course:
    with temporary_folder() as place, model("slow", place) as answering:
        return _course(count, answering, DELEGATE_CONCURRENCY_OPENAI_BENCH=str(count), **settings)


def _course(count: int, answering: Model, **settings: str) -> Course:
    with stack(answering, **settings) as bench:
        finished(bench, submitted(bench, 1))  # what is done once for a home is not counted
        return measured(bench, count)


def measured(bench: Bench, count: int) -> Course:
    """So many delegations, watched until all have ended."""
    course, stop = Course(), threading.Event()
    quiet, before = pss_mb(tree(bench.keeper)), _cpu(bench)
    watcher = threading.Thread(target=_look, args=(bench, course, stop, quiet), daemon=True)
    began = time.monotonic()
    watcher.start()
    try:
        course.outcomes = finished(bench, submitted(bench, count))
        course.seconds = time.monotonic() - began
        time.sleep(3.0)
    finally:
        stop.set()
        watcher.join()
    spent = [after - earlier for after, earlier in zip(_cpu(bench), before, strict=True)]
    course.server_cpu, course.database_cpu, course.all_cpu = spent
    return course


def _look(bench: Bench, course: Course, stop: threading.Event, quiet: float) -> None:
    runs, keeper = bench.home.stack / "runs", bench.keeper
    while not stop.wait(1.0):
        living = sum(run.is_alive() for run in launched_runs(runs))
        now = pss_mb(tree(keeper))
        course.most_pss_mb = max(course.most_pss_mb, now)
        if living > course.most_processes:
            course.most_processes, course.pss_per_run_mb = living, (now - quiet) / living


def _cpu(bench: Bench) -> tuple[float, float, float]:
    pids = bench.pids()
    found = [cpu_seconds(tree(pids[name])) if name in pids else 0.0 for name in ("server", "database")]
    return found[0], found[1], cpu_seconds(tree(bench.keeper))


def submitted(bench: Bench, count: int) -> list[str]:
    """Cards handed in by one client, four at a time."""
    service = Service(load_settings(bench.env, bench.repo))
    stamp = time.monotonic_ns()
    cards = [Card(task=f"Make hello.txt ({stamp}-{n}).", repo=str(bench.repo), verify="true") for n in range(count)]
    with ThreadPoolExecutor(4) as hands:
        return list(hands.map(lambda card: service.submit(card).id, cards))


def finished(bench: Bench, ids: Sequence[str]) -> list[str]:
    """Their outcomes, from the records on disk. Raises TimeoutError."""
    records, open_ids = RecordStore(bench.home), set(ids)
    outcomes: list[str] = []
    deadline = time.monotonic() + _LONGEST_SECONDS
    while open_ids and time.monotonic() < deadline:
        for each in list(open_ids):
            receipt = ended_receipt(records, each)
            if receipt is not None:
                outcomes.append(receipt.outcome)
                open_ids.remove(each)
        time.sleep(0.2)
    if open_ids:
        raise TimeoutError(f"{len(open_ids)} of {len(ids)} delegations have not ended")
    return outcomes


def growth(quick: bool) -> Iterator[Row]:
    """The same work once, ten, a hundred and a thousand times: what each of them costs."""
    counts = (1, 4, 12) if quick else (1, 10, 100, 1000)
    settings = {"DELEGATE_CONCURRENCY_OPENAI_BENCH": "6", "DELEGATE_MAX_QUEUE": "2000"}
    with temporary_folder() as place, model("repair", place) as answering, stack(answering, **settings) as bench:
        finished(bench, submitted(bench, 2))
        for count in counts:
            yield from _grown(bench, count)


def _grown(bench: Bench, count: int) -> Iterator[Row]:
    disk, tables = _disk_mb(bench), _database_mb(bench)
    course = measured(bench, count)
    yield Row(name=f"{count} delegations, 6 slots: wall, each", unit="s", ours=course.seconds / count)
    yield Row(
        name=f"{count} delegations, 6 slots: CPU, each", unit="CPU s", ours=course.all_cpu / count,
        note=f"server {course.server_cpu / count:.2f}, database {course.database_cpu / count:.2f}",
    )  # fmt: skip
    yield Row(
        name=f"{count} delegations, 6 slots: disk, each", unit="kB", ours=1000 * (_disk_mb(bench) - disk) / count,
        note=f"database {1000 * (_database_mb(bench) - tables) / count:.0f} kB",
    )  # fmt: skip


def _disk_mb(bench: Bench) -> float:
    """Records, ledger and kept results, as they lie on disk."""
    folders = (bench.home.delegations, bench.home.ledger, bench.home.results, bench.home.worktrees)
    return sum(_size(folder) for folder in folders) / 1e6


def _size(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) if folder.exists() else 0


def _database_mb(bench: Bench) -> float:
    from sqlalchemy import create_engine, text

    url = bench.state.database_url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return float(connection.execute(text("select pg_database_size(current_database())")).scalar_one()) / 1e6
    finally:
        engine.dispose()
