"""Third step, where a command-line agent does the work: its program runs in the tree, and what came of it is kept."""

import traceback
from dataclasses import dataclass
from datetime import UTC, datetime

from delegation.agents.spending import Spending
from delegation.checkout.worktree import Worktree
from delegation.confinement import find_confiner
from delegation.errors import EndpointError, UsageError, WorkFailed
from delegation.files import publish
from delegation.harnesses.codex_login import auth_stopped, login_mark, login_secrets, stop_for_auth
from delegation.harnesses.harness import Job, OnProgress
from delegation.harnesses.order import Order
from delegation.harnesses.placing import job_in
from delegation.harnesses.polling import LOG_FILE, keep_beginning
from delegation.harnesses.pools import KINDS, Pool, pool_of
from delegation.harnesses.registry import harness_of
from delegation.harnesses.result import HarnessResult, work_of
from delegation.harnesses.running import run_harness
from delegation.harnesses.throttling import wait_seconds
from delegation.masking import Mask
from delegation.request import DelegationRequest, Endpoint
from delegation.secrets import value_of
from delegation.settings import Settings, load_settings
from delegation.steps.folders import begin_step, home, record_folder
from delegation.steps.gated import Gatekeeper
from delegation.steps.handover import note_for
from delegation.steps.known_secrets import key_of, known_secrets
from delegation.steps.program_result import kept, warned, with_kept_out
from delegation.steps.program_telling import OnLine, Telling
from delegation.steps.program_thread import Beginning, beginning_of, begins_anew, fetch_thread, keep_thread, whole
from delegation.steps.record import work_of as earlier_work
from delegation.steps.unwalled import watch_checkout
from delegation.work import Work

_THREAD_GONE = "the thread to go on with is gone: it began anew, with the whole task"


def work_by_harness(
    request: DelegationRequest,
    worktree: Worktree,
    order: Order,
    *,
    endpoint: Endpoint | None = None,
    throttles: int = 0,
    gatekeeper: Gatekeeper | None = None,
    on_line: OnLine = lambda _: None,
) -> Work:
    """Run the program of the order in the tree, from the beginning of its task. `endpoint` is the model of the chain
    that has the work; none means the first.

    What it printed is in the record (`harness.log`), as are its result (`harness.json`) and the account of the work
    (`work.json`), finished or not. `throttles` counts refusals in a row before this run: the wait after the next one is
    longer. Raises the EndpointError that it failed of, WorkFailed when nothing could be started.
    """
    begin_step(request.id, "agent", detail=f"{request.agent.name} begins")
    endpoint = endpoint or request.endpoint
    order, note = _order_for(order, endpoint), note_for(request, endpoint.alias)
    settings, folder = settings_of(order), record_folder(request.id)
    keep_beginning(folder, datetime.now(UTC))
    if gatekeeper is not None:
        gatekeeper.before_request()
    login, mask = _login_of(order, settings), _mask_of(request, order, settings)
    with watch_checkout(request, confined=_is_confined(request, order)) as watched:
        run_one = _Run(request, worktree, endpoint, settings, mask, Telling(request.id, on_line))
        result = run_one(beginning := beginning_of(request, order, worktree, note))
        if begins_anew(beginning, result):
            result = warned(run_one(whole(request, order)), _THREAD_GONE)
    result = kept(with_kept_out(request, result, settings, mask), folder)
    error = _failure(result, throttles)
    _tell(gatekeeper, result, error)
    if result.harness == "codex" and result.failure_kind == "auth":
        stop_for_auth(settings, login)
    done = _with_earlier(request, work_of(result, alias=endpoint.alias, bucket=endpoint.bucket))
    done = mask.value(done.model_copy(update={"warnings": (*done.warnings, *watched.warnings)}))
    publish(folder / "work.json", done.model_dump_json(indent=1))
    if error is not None:
        publish(folder / "failure.txt", mask.text("".join(traceback.format_exception(error))))
        raise mask.error(error)
    return done


def _login_of(order: Order, settings: Settings) -> str | None:
    return login_mark(settings) if order.harness == "codex" else None


def _mask_of(request: DelegationRequest, order: Order, settings: Settings) -> Mask:
    """What the program is given, and what it reads for itself."""
    own = login_secrets(settings) if order.harness == "codex" else ()
    return Mask.of([*known_secrets(request).values, *own])


@dataclass(frozen=True)
class _Run:
    """One run of the program; what it printed and its thread go into the record."""

    request: DelegationRequest
    worktree: Worktree
    endpoint: Endpoint
    settings: Settings
    mask: Mask
    tell: OnProgress

    def __call__(self, beginning: Beginning) -> HarnessResult:
        order = beginning.order
        job = _job(self.request, self.worktree, self.endpoint, beginning, self.settings)
        fetch_thread(self.request, job)
        result = run_harness(
            harness_of(order.harness, self.settings, order.template, self.request.agent.name),
            job,
            self.settings,
            on_progress=self.tell,
            log=record_folder(self.request.id) / LOG_FILE,
            mask=self.mask,
        )
        keep_thread(self.request, job, result, self.mask)
        return result


def settings_of(order: Order) -> Settings:
    """This process's settings with those of the program as the caller had them. Raises WorkFailed('config')."""
    try:
        own = load_settings()
        return load_settings({**own.environ, **order.variables}, cwd=own.cwd) if order.variables else own
    except UsageError as error:
        raise WorkFailed("config", str(error)) from error


def pool_of_program(request: DelegationRequest) -> Pool | None:
    """The pool whose rules on projects, checkouts and launches bind it; None for work that has none."""
    order = request.order
    return pool_of(order.harness, settings_of(order)) if order is not None and order.harness in KINDS else None


def login_is_refused(request: DelegationRequest) -> bool:
    """Whether it waits for a person: the program's login was refused, and is still the same."""
    order = request.order
    return order is not None and order.harness == "codex" and auth_stopped(settings_of(order))


def _order_for(order: Order, endpoint: Endpoint) -> Order:
    """Claude Code works on whatever model of the chain has the work; others have a model of their own."""
    return order.model_copy(update={"model": endpoint.alias}) if order.harness == "claude" else order


def _job(request: DelegationRequest, worktree: Worktree, at: Endpoint, beginning: Beginning, settings: Settings) -> Job:
    order = beginning.order
    endpoint = at if order.harness == "claude" else None
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
        needs_answer=request.card.expects == "answer",
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
    """Programs that bring a sandbox of their own instead of ours are watched as those without one."""
    has_walls = find_confiner(request.confinement) is not None  # asked in any case: required walls must be there
    brings_its_own = order.harness == "dsh" or (order.template is not None and not order.template.confined)
    return has_walls and not brings_its_own
