"""`delegate batch`: jobs as lines of JSON, run together; each result goes to its own file, or to stdout in order."""

import difflib
import json
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from delegation.card import Card
from delegation.errors import DelegateError, StackError, UsageError
from delegation.files import publish
from delegation.receipt import Receipt
from delegation.settings import Settings
from delegation.wrong_values import sentence
from mcp_entry.terminal.card_input import text_of_source
from mcp_entry.terminal.common import print_json, print_line, say
from mcp_entry.terminal.exits import OK, OTHER_OUTCOME, STOPPED_WAITING
from mcp_entry.verbs.one_shot import MAX_ITERATIONS, TIMEOUT_SECONDS, agentic_card, folder_of, question_card, text_of
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.submission import QueueFull
from mcp_entry.verbs.watching import LOOK_SECONDS, Watch

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}")


class _Job(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    model: str | None = None
    backend: str | None = None
    capture_transcript: bool = False


class _Question(_Job):
    prompt: str = Field(min_length=1)
    system_prompt: str | None = None


class _Agentic(_Job):
    task: str = Field(min_length=1)
    working_dir: str = Field(min_length=1)
    max_iterations: int = Field(default=MAX_ITERATIONS, ge=1, le=150)
    timeout_seconds: int = Field(default=TIMEOUT_SECONDS, ge=1)


_Kind = TypeVar("_Kind", bound=_Job)


@dataclass(frozen=True)
class Job:
    """One line. `name` is its result's file name, without `.txt`."""

    name: str
    card: Card
    with_id: bool


def read_jobs(source: str, settings: Settings) -> list[Job]:
    """The jobs of a file, or of stdin for `-`. Blank lines and those that begin with `#` are left out.

    Raises UsageError with file and line for anything that is no job: then none is run.
    """
    jobs = list(_jobs(source, text_of_source(source), settings))
    if not jobs:
        raise UsageError(f"{source}: there is no job in it")
    seen: set[str] = set()
    for job in jobs:
        if job.name.casefold() in seen:
            raise UsageError(f"{source}: two jobs are called {job.name!r}, so one result would replace the other")
        seen.add(job.name.casefold())
    return jobs


def _jobs(source: str, text: str, settings: Settings) -> Iterator[Job]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                yield _job(line, number, settings)
            except (ValueError, UsageError) as error:
                raise UsageError(f"{source}, line {number}: {_said(error)}") from None


def _job(line: str, number: int, settings: Settings) -> Job:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise UsageError('a job is an object, such as {"task": "..."}')
    agentic = "dir" in fields or "working_dir" in fields
    job = (
        _read(_Agentic, fields, {"dir": "working_dir", "prompt": "task"})
        if agentic
        else _read(_Question, fields, {"task": "prompt"})
    )
    name = job.name if job.name is not None else f"job-{number}"
    if not _NAME.fullmatch(name):
        raise UsageError(f"name {name!r} cannot be a file's: use letters, digits, '-', '_', '.' and spaces")
    return Job(name, _card(job, settings), job.capture_transcript)


def _read(kind: type[_Kind], fields: dict[str, Any], other_names: dict[str, str]) -> _Kind:
    given = _renamed(fields, other_names)
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        meant = _meant(fields, other_names)
        told = {full: short for short, full in other_names.items() if short in (*fields, *meant.values())}
        said = sentence(error, kind, told)
        for key, name in meant.items():
            said = said.replace(f"{key} is an unknown key", f"{key} is an unknown key: did you mean {name!r}?")
        raise UsageError(said) from None


def _meant(fields: Iterable[str], other_names: dict[str, str]) -> dict[str, str]:
    """Of the keys that no job has, those that are nearly one of its other names."""
    found = {key: difflib.get_close_matches(key, other_names, 1) for key in fields if key not in other_names}
    return {key: near[0] for key, near in found.items() if near}


def _renamed(fields: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    twice = [f"{short} and {full}" for short, full in names.items() if short in fields and full in fields]
    if twice:
        raise UsageError(f"{twice[0]} mean the same: give one of them")
    return {names.get(name, name): value for name, value in fields.items()}


def _card(job: _Agentic | _Question, settings: Settings) -> Card:
    if isinstance(job, _Question):
        return question_card(
            settings, job.prompt, model=job.model, system_prompt=job.system_prompt, backend=job.backend
        )
    return agentic_card(
        settings, job.task, folder_of(job.working_dir, settings.cwd), model=job.model,
        max_iterations=job.max_iterations, timeout_seconds=job.timeout_seconds, backend=job.backend,
    )  # fmt: skip


def _said(error: Exception) -> str:
    return f"not JSON: {error}" if isinstance(error, json.JSONDecodeError) else str(error)


def run_jobs(verbs: Service, jobs: Sequence[Job], out_dir: Path | None, *, as_json: bool) -> int:
    """Run all jobs; one that fails stops no other. 0 when all were answered, 1 when any was not."""
    if out_dir is not None:
        _make(out_dir)
    run = _Run(verbs, jobs, out_dir, as_json=as_json)
    try:
        return OK if run.to_the_end() else OTHER_OUTCOME
    except KeyboardInterrupt:
        say(f"stopped waiting; these go on: {', '.join(run.open) or 'none'}")
        return STOPPED_WAITING


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out-dir {str(folder)!r} cannot be made: {error.strerror}") from error


@dataclass(frozen=True)
class _Result:
    text: str
    answered: bool
    receipt: Receipt | None = None


@dataclass
class _Run:
    verbs: Service
    jobs: Sequence[Job]
    out_dir: Path | None
    as_json: bool
    open: dict[str, tuple[Job, Watch]] = field(default_factory=dict[str, tuple[Job, Watch]])
    _results: dict[str, _Result] = field(default_factory=dict[str, _Result])
    _shown: int = 0

    def to_the_end(self) -> bool:
        """Whether all were answered."""
        waiting = deque(self.jobs)
        while waiting or self.open:
            while waiting and self._submitted(waiting[0]):
                waiting.popleft()
            self._look()
            if waiting or self.open:
                time.sleep(LOOK_SECONDS)
        return all(result.answered for result in self._results.values())

    def _submitted(self, job: Job) -> bool:
        """False where the queue is full of our own and others' work: the job has to wait."""
        try:
            started = self.verbs.submit(job.card, tool="batch")
        except QueueFull as error:
            if self.open:
                return False
            self._finish(job, _Result(_line(error), answered=False))
        except StackError as error:
            if not self.open and not self._results:
                raise
            self._finish(job, _Result(_line(error), answered=False))
        except DelegateError as error:
            self._finish(job, _Result(_line(error), answered=False))
        else:
            say(f"{job.name}: {started.id} submitted")
            self.open[started.id] = (job, self.verbs.watch(started.id))
        return True

    def _look(self) -> None:
        for delegation_id, (job, watch) in list(self.open.items()):
            try:
                receipt = watch.look()
            except StackError as error:
                result = _Result(_line(error), answered=False)
            else:
                if receipt is None:
                    continue
                text = text_of(receipt, with_id=job.with_id)
                result = _Result(text, receipt.outcome == "answered", receipt)
            del self.open[delegation_id]
            self._finish(job, result)

    def _finish(self, job: Job, result: _Result) -> None:
        """Write its file at once, and stdout in the order of the jobs."""
        self._results[job.name] = result
        if self.out_dir is not None:
            publish(self.out_dir / f"{job.name}.txt", f"{result.text}\n")
            say(f"{job.name}: {'answered' if result.answered else result.text.splitlines()[0]}")
        while self._shown < len(self.jobs) and (name := self.jobs[self._shown].name) in self._results:
            self._show(name, self._results[name])
            self._shown += 1

    def _show(self, name: str, result: _Result) -> None:
        if self.as_json:
            receipt = result.receipt.model_dump(mode="json") if result.receipt else None
            print_json({"name": name, "answered": result.answered, "text": result.text, "receipt": receipt})
        elif self.out_dir is None:
            print_line(f"=== {name} ===\n{result.text}\n")


def _line(error: DelegateError) -> str:
    return f"Error: {' '.join(str(error).split())}"
