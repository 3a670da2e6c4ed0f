"""Third step, where a command-line agent does the work: its program runs in the tree, and what came of it is kept."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from delegation.agents.spending import Spending
from delegation.checkout.worktree import Worktree
from delegation.confinement import find_confiner
from delegation.errors import EndpointError, WorkFailed
from delegation.files import publish
from delegation.harnesses.codex_login import auth_stopped, stop_for_auth
from delegation.harnesses.harness import Job, OnProgress
from delegation.harnesses.harness import Progress as Happened
from delegation.harnesses.order import Order
from delegation.harnesses.placing import job_in
from delegation.harnesses.polling import keep_beginning
from delegation.harnesses.pools import KINDS, Pool, pool_of
from delegation.harnesses.registry import harness_of
from delegation.harnesses.result import HarnessResult, work_of
from delegation.harnesses.running import run_harness
from delegation.harnesses.throttling import wait_seconds
from delegation.masking import Mask
from delegation.records import Progress
from delegation.request import DelegationRequest
from delegation.secrets import value_of
from delegation.settings import Settings, load_settings
from delegation.steps.folders import begin_step, home, record_folder, records
from delegation.steps.gated import Gatekeeper
from delegation.steps.known_secrets import key_of, known_secrets
from delegation.steps.program_result import kept, warned, with_kept_out
from delegation.steps.program_thread import Beginning, beginning_of, begins_anew, fetch_thread, keep_thread, whole
from delegation.steps.record import work_of as earlier_work
from delegation.steps.unwalled import watch_checkout
from delegation.work import Work

LOG_FILE = "harness.log"
OnLine = Callable[[str], None]
_TELL_SECONDS = 1.0
_THREAD_GONE = "the thread to go on with is gone: it began anew, with the whole task"


def work_by_harness(
    request: DelegationRequest,
    worktree: Worktree,
    order: Order,
    *,
    throttles: int = 0,
    gatekeeper: Gatekeeper | None = None,
    on_line: OnLine = lambda _: None,
) -> Work:
    """Run the program of the order in the tree, from the beginning of its task.

    What it printed is in the record (`harness.log`), as are its result (`harness.json`) and the account of the work
    (`work.json`), finished or not. `throttles` counts refusals in a row before this run: the wait after the next one is
    longer. Raises the EndpointError that it failed of, WorkFailed when nothing could be started.
    """
    begin_step(request.id, "agent", detail=f"{request.agent.name} begins")
    settings, folder = settings_of(order), record_folder(request.id)
    keep_beginning(folder, datetime.now(UTC))
    if gatekeeper is not None:
        gatekeeper.before_request()
    mask = known_secrets(request)
    with watch_checkout(request, confined=_is_confined(request, order)) as watched:
        run_one = _Run(request, worktree, settings, mask, _Telling(request.id, on_line))
        result = run_one(beginning := beginning_of(request, order, worktree))
        if begins_anew(beginning, result):
            result = warned(run_one(whole(request, order)), _THREAD_GONE)
    result = kept(with_kept_out(request, result, settings), folder)
    error = _failure(result, throttles)
    _tell(gatekeeper, result, error)
    if result.harness == "codex" and result.failure_kind == "auth":
        stop_for_auth(settings)
    done = _with_earlier(request, work_of(result, alias=request.endpoint.alias, bucket=request.endpoint.bucket))
    done = mask.value(done.model_copy(update={"warnings": (*done.warnings, *watched.warnings)}))
    publish(folder / "work.json", done.model_dump_json(indent=1))
    if error is not None:
        publish(folder / "failure.txt", mask.text("".join(traceback.format_exception(error))))
        raise mask.error(error)
    return done


@dataclass(frozen=True)
class _Run:
    """One run of the program; what it printed and its thread go into the record."""

    request: DelegationRequest
    worktree: Worktree
    settings: Settings
    mask: Mask
    tell: OnProgress

    def __call__(self, beginning: Beginning) -> HarnessResult:
        order = beginning.order
        job = _job(self.request, self.worktree, beginning, self.settings)
        fetch_thread(self.request, job)
        result = run_harness(
            harness_of(order.harness, self.settings, order.template),
            job,
            self.settings,
            on_progress=self.tell,
            log=record_folder(self.request.id) / LOG_FILE,
            mask=self.mask,
        )
        keep_thread(self.request, job, result, self.mask)
        return result


def settings_of(order: Order) -> Settings:
    """This process's settings with those of the program as the caller had them."""
    own = load_settings()
    return load_settings({**own.environ, **order.variables}, cwd=own.cwd) if order.variables else own


def pool_of_program(request: DelegationRequest) -> Pool | None:
    """The pool whose rules on projects, checkouts and launches bind it; None for work that has none."""
    order = request.order
    return pool_of(order.harness, settings_of(order)) if order is not None and order.harness in KINDS else None


def login_is_refused(request: DelegationRequest) -> bool:
    """Whether it waits for a person: the program's login was refused, and is still the same."""
    order = request.order
    return order is not None and order.harness == "codex" and auth_stopped(settings_of(order))


def _job(request: DelegationRequest, worktree: Worktree, beginning: Beginning, settings: Settings) -> Job:
    order = beginning.order
    endpoint = request.endpoint if order.harness == "claude" else None
    return job_in(
        worktree,
        order,
        beginning.task,
        confinement=request.confinement,
        network=request.network,
        search_path=request.search_path,
        most_processes=request.max_processes,
        environment={name: value_of(home(), ref) for name, ref in request.environment_refs.items()},
        endpoint=endpoint,
        key=key_of(endpoint, settings.environ) if endpoint else None,
        thread_usage=beginning.thread_usage,
    )


def _failure(result: HarnessResult, throttles: int) -> EndpointError | None:
    error = result.error()
    if error is not None and error.kind == "throttled":
        error.retry_after_seconds = wait_seconds(throttles + 1, error.retry_after_seconds)
    return error


def _tell(gatekeeper: Gatekeeper | None, result: HarnessResult, error: WorkFailed | None) -> None:
    if gatekeeper is None:
        return
    if isinstance(error, EndpointError):
        gatekeeper.refused(error)
    else:
        gatekeeper.answered()
    gatekeeper.paid(result.cost, result.usage.requests)


def _with_earlier(request: DelegationRequest, work: Work) -> Work:
    """With the runs before it that were refused: each began anew, and what they used counts."""
    earlier = earlier_work(request.id)
    if earlier is None:
        return work
    attempts = (*earlier.attempts, *work.attempts)
    spending = Spending()
    for attempt in attempts:
        spending = spending.plus(attempt.usage, attempt.cost)
    told = {"attempts": attempts, "usage": spending.usage, "cost": spending.cost, "costs": spending.costs}
    return work.model_copy(update=told)


def _is_confined(request: DelegationRequest, order: Order) -> bool:
    """Programs of the user's that bring a sandbox of their own are watched as those without one."""
    has_walls = find_confiner(request.confinement) is not None  # asked in any case: required walls must be there
    return has_walls and (order.template is None or order.template.confined)


class _Telling:
    """Writes the newest of what happens into the record, once a second at most, and hands every line on."""

    def __init__(self, delegation_id: str, on_line: OnLine) -> None:
        self._id, self._on_line = delegation_id, on_line
        self._told_at = 0.0

    def __call__(self, happened: Happened) -> None:
        line = f"{happened.kind}: {happened.detail}" if happened.detail else happened.kind
        if time.monotonic() - self._told_at >= _TELL_SECONDS:
            self._told_at = time.monotonic()
            records().write_status(self._id, Progress(step="agent", detail=line))
        self._on_line(line)
