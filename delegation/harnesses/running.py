"""Runs one command-line agent to its end: started through the door, read as it speaks, judged, and all of it gone."""

import json
import shutil
import threading
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from delegation.chat.history import clean
from delegation.errors import EndpointError
from delegation.harnesses.harness import Command, Ended, Harness, Job, OnProgress, Progress, Reader, Said, Stream
from delegation.harnesses.lines import Activity, Lines
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.surroundings import prepare_place
from delegation.masking import NOTHING_SECRET, Mask
from delegation.models.prices import estimated_usd
from delegation.process import Finished, Limit, run
from delegation.processes.output import Log
from delegation.receipt import Cost
from delegation.settings import Settings

_KEPT = Limit(head=64_000, tail=192_000)
MOST_ANSWER_CHARACTERS = 200_000
_LOOK_SECONDS = 0.1
_LOG_BYTES = 32 * 1024 * 1024
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
_LATE = "it had finished its answer when the cancel came; the answer is kept"


def run_harness(
    harness: Harness,
    job: Job,
    settings: Settings,
    *,
    on_progress: OnProgress = lambda _: None,
    cancelled: threading.Event | None = None,
    log: Path | None = None,
    mask: Mask = NOTHING_SECRET,
) -> HarnessResult:
    """Run the job; nothing of it is alive when this returns or raises. `log` gets the lines that it printed, bounded.

    What `mask` hides, and the job's key, stand neither in the log nor in what is told or returned.

    A program that failed is a result with a failure kind, never an exception. Ended by us it is `time_limit` (the whole
    run), `stalled` (silent for too long with no tool at work) or cancelled; the first of these that comes counts.
    Raises WorkFailed when nothing could be started: no program, no walls, a jail that does not hold.
    """
    prepare_place(job, settings)
    started_at = datetime.now(UTC)
    command = harness.command(job)
    mask = whole_mask(mask, job.key)
    try:
        with ExitStack() as open_files:
            kept = None if log is None else open_files.enter_context(closing(Log(log, limit_bytes=_LOG_BYTES)))
            reader = _Listening(harness.reader(job), on_progress, kept, mask)
            with _watched(reader, job.order.idle_seconds, cancelled) as watch:
                finished = _run(command, job, reader, watch.stop)
            said = reader.finished()
        return mask.value(_result(harness, job, command, finished, said, watch, started_at))
    finally:
        for folder in command.left_behind:
            shutil.rmtree(folder, ignore_errors=True)


def whole_mask(mask: Mask, key: str | None) -> Mask:
    """The same and the key, for lines and for JSON in which a value may stand escaped."""
    values = [value for value in (*mask.values, key) if value]
    lines = [line for value in values for line in value.splitlines()]
    return Mask.of([*values, *lines, *(json.dumps(line)[1:-1] for line in lines)])


def _run(command: Command, job: Job, listening: "_Listening", stop: threading.Event) -> Finished:
    return run(
        command.argv,
        cwd=job.workdir,
        env=command.env,
        timeout_seconds=job.order.timeout_seconds,
        confiner=command.confiner,
        walls=command.walls if command.confiner else None,
        stdin=None if command.stdin is None else command.stdin.encode("utf-8", "replace"),
        stdout_limit=_KEPT,
        stderr_limit=_KEPT,
        cancelled=stop,
        most_processes=job.most_processes,
        on_stdout=listening.hear_stdout,
        on_stderr=listening.hear_stderr,
    )


class _Listening:
    """Hands lines of both streams to the log and the reader, one at a time, and tells what they mean."""

    def __init__(self, reader: Reader, on_progress: OnProgress, log: Log | None, mask: Mask) -> None:
        self._reader = reader
        self._on_progress = on_progress
        self._log = log
        self._mask = mask
        self._lock = threading.Lock()
        self._broken: str | None = None
        self.activity = Activity()
        self.stdout = Lines(lambda text: self._take("stdout", text))
        self.stderr = Lines(lambda text: self._take("stderr", text))

    @property
    def busy(self) -> bool:
        return self._reader.busy

    def hear_stdout(self, data: bytes) -> None:
        self.activity.note()  # dots without a line end are a sign of life, too
        self.stdout.feed(data)

    def hear_stderr(self, data: bytes) -> None:
        self.activity.note()
        self.stderr.feed(data)

    def finished(self) -> Said:
        for stream in (self.stdout, self.stderr):
            stream.close()
        with self._lock:
            said = _account(self._reader)
        more = [f"{self.stdout.dropped} lines were too long to be read"] if self.stdout.dropped else []
        more += [self._broken] if self._broken else []
        return replace(said, warnings=(*said.warnings, *more))

    def _take(self, stream: Stream, text: str) -> None:
        text = self._mask.text(text)
        with self._lock:
            if self._log is not None:
                self._log.write(f"{text}\n".encode("utf-8", "replace"))
            try:
                progress = self._reader.line(stream, text)
            except _UNREADABLE as error:
                self._broken = f"a line of its output could not be read ({type(error).__name__})"
                return
        if progress is not None:
            self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        try:
            self._on_progress(progress)
        except Exception as error:  # whoever listens must not stop the pipes
            self._broken = f"progress could not be told ({type(error).__name__})"


def _account(reader: Reader) -> Said:
    """What the program said of itself, in characters that every file and every database takes."""
    try:
        said = reader.said()
    except _UNREADABLE as error:
        return Said(problem=f"its own account could not be read ({type(error).__name__})")
    return replace(
        said,
        answer=_cleaned(said.answer),
        session_id=_cleaned(said.session_id),
        response_model=_cleaned(said.response_model),
        problem=_cleaned(said.problem),
        warnings=tuple(map(clean, said.warnings)),
    )


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)


@dataclass
class _Watch:
    stop: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    stalled: bool = False


@contextmanager
def _watched(listening: _Listening, idle_seconds: int | None, cancelled: threading.Event | None) -> Generator[_Watch]:
    """Sets `stop` on a cancel from outside, and when it has been silent for too long."""
    watch = _Watch()

    def look() -> None:
        while not watch.over.wait(_LOOK_SECONDS):
            if cancelled is not None and cancelled.is_set():
                watch.stop.set()
                return
            if listening.busy:
                listening.activity.note()
            if idle_seconds is not None and listening.activity.silent_seconds > idle_seconds:
                watch.stalled = True
                watch.stop.set()
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def _result(
    harness: Harness, job: Job, command: Command, finished: Finished, said: Said, watch: _Watch, started_at: datetime
) -> HarnessResult:
    failure = _ended_by_us(harness, job, finished, said, watch)
    by_cancel = finished.cancelled and not watch.stalled
    if failure is None and not by_cancel:
        failure = harness.failure(_ended(finished), said)
    return HarnessResult(
        harness=harness.name,
        cancelled=by_cancel,
        failure_kind=failure.kind if failure else None,
        failure_message=str(failure) if failure else None,
        retry_after_seconds=failure.retry_after_seconds if failure else None,
        resets_at=failure.resets_at if failure else None,
        answer=None if said.answer is None else said.answer[:MOST_ANSWER_CHARACTERS],
        session_id=said.session_id,
        model=job.order.model,
        response_model=said.response_model,
        usage=said.usage,
        thread_usage=said.thread_usage,
        cost=_cost(harness, job, said),
        turns=said.turns,
        tool_calls=said.tool_calls,
        last_command_exit=said.last_command_exit,
        command_failures=said.command_failures,
        tool_retries=said.retries,
        exit_code=finished.exit_code,
        out_dir=str(job.out) if harness.name == "dsh" else None,
        warnings=(
            *job.order.warnings,
            *command.warnings,
            *_shortened(said),
            *said.warnings,
            *([_LATE] if by_cancel and said.complete else []),
        ),
        confined_by=command.confined_by,
        endpoints=command.endpoints,
        killed_processes=finished.killed_processes,
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )


def _shortened(said: Said) -> tuple[str, ...]:
    length = len(said.answer or "")
    return (f"the answer of {length:,} characters was cut",) if length > MOST_ANSWER_CHARACTERS else ()


def _ended(finished: Finished) -> Ended:
    return Ended(
        exit_code=finished.exit_code if finished.exit_code is not None else 1,
        signal_name=finished.signal_name,
        stdout=finished.stdout.text,
        stderr=finished.stderr.text,
    )


def _ended_by_us(harness: Harness, job: Job, finished: Finished, said: Said, watch: _Watch) -> EndpointError | None:
    last = f"; the last it said of a problem: {said.problem}" if said.problem else ""
    if finished.timed_out:
        return EndpointError("time_limit", f"{harness.name} was ended after {job.order.timeout_seconds} s{last}")
    if finished.cancelled and watch.stalled:
        return EndpointError("stalled", f"{harness.name} said nothing for {job.order.idle_seconds} s{last}")
    if finished.disk_full:
        return EndpointError("process", f"{harness.name} was ended: the disk is nearly full")
    if finished.too_many_processes is not None:
        return EndpointError("process", f"{harness.name} was ended: more than {finished.too_many_processes} processes")
    return None


def _cost(harness: Harness, job: Job, said: Said) -> Cost:
    """A plan costs nothing more by the run. Elsewhere the endpoint's own prices count: what a program reckons by its
    list of prices is wrong for every model that is not on it."""
    plan = job.endpoint.flat_plan if job.endpoint is not None else harness.name in ("codex", "gemini")
    if plan:
        return Cost(amount_usd=None, kind="flat_plan")
    amount = None if job.endpoint is None else estimated_usd(job.endpoint, said.usage)
    return Cost(amount_usd=amount, kind="unknown" if amount is None else "estimated")
