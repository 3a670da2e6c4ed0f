"""`delegate-wait IDS...`: the command that an agent runs in the background and that wakes it when jobs have ended.

Exit codes: 0 all are done, 1 one ended otherwise (lost ones, too), 2 an id was not seen within 30 seconds (at once for
a text that none can be), 3 the time of --timeout is over. The first of the two limits counts. A job of Codex, Gemini or
dsh is done when its program ended well; another delegation when its outcome is as `delegate wait` has it.
"""

import json as json_module
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from delegation.errors import DelegateError, NotFoundError, StackError, UsageError
from delegation.files import drop_output
from delegation.harnesses.choice import prefix_of
from delegation.harnesses.pools import KINDS
from delegation.harnesses.sanitising import one_line, safe_json
from delegation.ids import may_name_one
from delegation.outcome import exit_code_of
from delegation.receipt import Receipt
from delegation.records.standing import ended_receipt
from mcp_entry.stack.pauses import LOOK_SECONDS, Pauses
from mcp_entry.terminal.common import Patience, checked_patience, service
from mcp_entry.terminal.exits import CANNOT, OK, OTHER_OUTCOME, STOPPED_WAITING
from mcp_entry.verbs.program_jobs import job_of, status_of_receipt
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.watching import Watch

UNSEEN_SECONDS = 30.0
Pause = Callable[[Sequence[str], float | None], None]
_PROGRAMS = tuple(f"{prefix_of(kind)}-" for kind in KINDS)


@dataclass
class _Job:
    """One id as it was given. `fields` is what is told of it once it has ended."""

    text: str
    id: str | None = None
    watch: Watch | None = None
    asked_at: float | None = None
    fields: dict[str, Any] | None = None
    is_good: bool = False


@dataclass
class Waiter:
    """Waits for jobs of every kind. `tell` hears one line for each."""

    verbs: Service
    tell: Callable[[str], None]
    as_json: bool = False
    all_first: bool = False
    clock: Callable[[], float] = time.monotonic
    pause: Pause = lambda _, left: time.sleep(LOOK_SECONDS if left is None else min(LOOK_SECONDS, left))
    _jobs: list[_Job] = field(default_factory=list[_Job], init=False)

    def wait(self, texts: Sequence[str], timeout_seconds: float | None = None) -> int:
        """Until all have ended, or the first limit; the exit code."""
        begun = self.clock()
        self._jobs = [_Job(text) for text in dict.fromkeys(texts)]
        while True:
            for job in (each for each in self._jobs if each.fields is None):
                self._look(job)
                if job.fields is not None and not self.all_first:
                    self._say(job)
            waited = self.clock() - begun
            if all(job.fields for job in self._jobs):
                return self._over(OK if all(job.is_good for job in self._jobs) else OTHER_OUTCOME)
            unseen = [job.text for job in self._jobs if job.id is None]
            if unseen and (waited >= UNSEEN_SECONDS or not all(map(may_name_one, unseen))):
                self._say_unseen(unseen)
                return self._over(CANNOT)
            if timeout_seconds is not None and waited >= timeout_seconds:
                return self._over(STOPPED_WAITING)
            self._pause_before_next_look(None if timeout_seconds is None else timeout_seconds - waited)

    def _pause_before_next_look(self, left_seconds: float | None) -> None:
        """An id that was not seen yet has nothing that could tell of it."""
        seen = [job.id for job in self._jobs if job.id is not None and job.fields is None]
        self.pause(seen if all(job.id for job in self._jobs) else [], left_seconds)

    def _say_unseen(self, texts: Sequence[str]) -> None:
        names, place = ", ".join(map(one_line, texts)), one_line(str(self.verbs.settings.home.delegations))
        told = f"not seen: {names}: no such id in {place}; `delegate list` shows those there are"
        sys.stderr.write(f"delegate-wait: {told}\n")

    def _over(self, code: int) -> int:
        if self.all_first:
            for job in self._jobs:
                if job.fields is not None:
                    self._say(job)
        return code

    def _look(self, job: _Job) -> None:
        """The disk at every look; whether somebody works on it at the interval of the settings."""
        try:
            job.id = job.id or self.verbs.identify(job.text)
        except NotFoundError:
            return
        try:
            self._see(job, job.id)
        except (StackError, UsageError) as error:  # nobody works on it, or its record is damaged
            job.fields = {"id": job.id, "status": "lost", "error": one_line(str(error))}

    def _see(self, job: _Job, job_id: str) -> None:
        receipt = ended_receipt(self.verbs.records, job_id)
        interval = self.verbs.settings.wait_interval_seconds
        if receipt is None and (job.asked_at is None or self.clock() - job.asked_at >= interval):
            job.asked_at = self.clock()
            job.watch = job.watch or self.verbs.watch(job_id)
            receipt = job.watch.look()
        if receipt is not None:
            job.fields, job.is_good = _ended(self.verbs, job_id, receipt)

    def _say(self, job: _Job) -> None:
        fields = job.fields or {}
        self.tell(json_module.dumps(safe_json(fields)) if self.as_json else line_of(fields))


def line_of(fields: dict[str, Any]) -> str:
    """One line for a person: the id, how it ended in capitals, and what it was."""
    words = [str(fields["id"]), str(fields["status"]).upper()]
    for name in ("failure_kind", "duration_s", "outcome"):
        if fields.get(name) is not None:
            words.append(f"{name}={fields[name]}")
    if marks := [each for each in map(str, fields.get("warnings") or ()) if " " not in each]:  # sentences: --json
        words.append(f"warnings={','.join(marks)}")
    words.append(str(fields.get("error") or fields.get("task") or ""))
    return one_line(" ".join(words))


def _ended(verbs: Service, job_id: str, receipt: Receipt) -> tuple[dict[str, Any], bool]:
    if not job_id.startswith(_PROGRAMS):
        status = status_of_receipt(receipt)
        fields = {"id": job_id, "status": status, "outcome": receipt.outcome, "error": receipt.failure_message}
        return fields, exit_code_of(receipt) == OK
    fields = job_of(verbs, job_id)
    return {**fields, "outcome": receipt.outcome}, fields["status"] == "done"


def wait_for(ids: Sequence[str], *, all_first: bool, timeout: float | None, as_json: bool) -> int:
    """What both commands do. Raises UsageError where nothing is to be waited for."""
    if not ids:
        raise UsageError("wait for what? give the ids of jobs")
    patience = checked_patience(timeout)
    verbs = service(at_work=True)
    with Pauses(verbs.settings, verbs.records) as pause:
        return Waiter(verbs, _print, as_json=as_json, all_first=all_first, pause=pause).wait(ids, patience)


def _print(line: str) -> None:
    """Where nobody reads any more the exit code still tells."""
    if (out := sys.stdout) is None:  # closed before we began
        return
    try:
        out.write(f"{line}\n")
        out.flush()
    except OSError:
        drop_output(out)


def _command(
    *ids: Annotated[str, Parameter(help="Ids of jobs of every kind.")],
    all: Annotated[bool, Parameter(negative="", help="Say nothing before every job has ended.")] = False,  # noqa: A002
    timeout: Patience = None,
    json: Annotated[bool, Parameter(negative="", help="One JSON object per line.")] = False,
    hook: Annotated[
        bool, Parameter(negative="", help="For the plugin of Claude Code: what to wait for is on stdin.")
    ] = False,
) -> int:
    """Wait until jobs have ended. One line for each as it ends."""
    if hook:
        from mcp_entry.terminal import wake_hook

        return wake_hook.main()
    return wait_for(ids, all_first=all, timeout=timeout, as_json=json)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script. Failures are one line on stderr and exit code 2."""
    app = App(name="delegate-wait", help=_command.__doc__, version_flags=[])
    app.default(_command)
    try:
        return int(app(argv, exit_on_error=False, print_error=False, result_action="return_value") or OK)
    except (CycloptsError, DelegateError) as error:
        sys.stderr.write(f"delegate-wait: {one_line(str(error))}\n")
        return CANNOT
    except KeyboardInterrupt:
        return STOPPED_WAITING


if __name__ == "__main__":
    sys.exit(main())
