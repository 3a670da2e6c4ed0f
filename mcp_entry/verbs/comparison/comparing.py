"""The verbs of comparisons: ask the stack for one, and see how one stands. Reading needs no stack."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from delegation.card import Card
from delegation.comparison.plan import Comparison
from delegation.comparison.planning import IN_FLIGHT, plan_of
from delegation.comparison.report import ComparisonReport
from delegation.comparison.store import ComparisonStore
from delegation.comparison.trials import Trials
from delegation.comparison.writing import write_report
from delegation.errors import DelegateError, NotFoundError, UsageError
from delegation.models.buckets import limit_name_of
from delegation.notification.notice import hook_of
from delegation.records.labels import queue_name_of
from delegation.records.wording import count
from delegation.settings import Settings
from delegation.submitting import queue_limit, slots_of
from mcp_entry.stack import access
from mcp_entry.stack.access import Say
from mcp_entry.stack.prefect_api import Deployment, FlowRun, NewRun, PrefectApi
from mcp_entry.stack.run_end import EndForGood
from mcp_entry.verbs.cancelling import end_for_its_parent
from mcp_entry.verbs.results import Cancelled

COMPARISON = "comparison/comparison"
LOOK_SECONDS = 0.5
_TAG, _QUEUE = "comparison", "default"
_ASK_SECONDS = 2.0


@dataclass(frozen=True)
class StartedComparison:
    """A comparison that has its plan and its flow run. `is_new` is False where its key was used before."""

    comparison: Comparison
    is_new: bool
    flow_run_id: str
    ui_url: str | None


class Comparing:
    """One user's comparisons."""

    def __init__(self, settings: Settings, say: Say = lambda _: None) -> None:
        self.settings = settings
        self.store = ComparisonStore(settings.home)
        self._say = say

    def submit(
        self,
        card: Card,
        models: Sequence[str],
        *,
        repeats: int = 1,
        in_flight: int = IN_FLIGHT,
        notify: str | None = None,
    ) -> StartedComparison:
        """Plan it, start the stack if need be, and create its flow run. The same `card.key` is the same comparison.

        `notify` is a shell command for its end, in the place of the setting; an empty one is none.

        Raises UsageError (nothing is left behind) for what cannot be compared, ConflictError when the key stands for
        another comparison, StackError when the stack cannot take it.
        """
        hook = hook_of(notify, self.settings)
        planned = plan_of(card, models, self.settings, repeats=repeats, in_flight=in_flight, notify=hook)
        if len(planned.trials) > self.settings.max_queue:
            raise UsageError(
                f"{len(planned.trials)} trials are more than DELEGATE_MAX_QUEUE allows ({self.settings.max_queue}): "
                "fewer models or repeats, or raise it"
            )
        connection = access.ensure_running(self.settings, self._say)
        with connection.prefect() as api:
            deployment = api.deployment(COMPARISON)
            comparison = self.store.create(planned)
            is_new = comparison is planned
            try:
                run = self._flow_run(comparison, api, deployment)
            except DelegateError:
                if is_new and card.key is None:  # nobody can ask for it again
                    shutil.rmtree(self.store.folder(comparison.id), ignore_errors=True)
                raise
        return StartedComparison(comparison, is_new, run.id, connection.run_url(run.id))

    def identify(self, text: str) -> str:
        """The id that a person means by an id, or a unique beginning or ending of one."""
        return self.store.resolve(text.strip())

    def is_known(self, text: str) -> bool:
        """Whether a text names exactly one comparison."""
        try:
            self.identify(text)
        except (NotFoundError, UsageError):
            return False
        return True

    def report(self, text: str) -> ComparisonReport:
        """How it stands, from the disk alone."""
        return self.store.report(self._trials(self.identify(text)))

    def watch(self, comparison_id: str) -> "ComparisonWatch":
        """A waiter for its end; `comparison_id` is a whole one."""
        return ComparisonWatch(self.settings, self.store, self._trials(comparison_id))

    def _trials(self, comparison_id: str) -> Trials:
        return Trials(self.store.read(comparison_id), self.settings)

    def cancel(self, text: str) -> Cancelled:
        """Ask the stack to end it and its trials; those that have ended stay as they are. One whose process died has
        not ended: it would be taken up again. Raises StackNotRunning when there is no stack."""
        comparison_id = self.identify(text)
        with access.connection(self.settings).prefect() as api:
            run = _run_of(api, comparison_id)
            if run is None or (run.has_ended and not run.has_crashed):
                return Cancelled(comparison_id, (run.state_name if run else None) or "gone", had_ended=True)
            after = api.cancel(run.id)
            if not run.has_process:  # which would end its trials, and leave a report of what there was
                trials = self._trials(comparison_id)
                for name in trials.open_children():
                    end_for_its_parent(trials.records, api, name)
                write_report(trials)
        return Cancelled(comparison_id, (after.state_name if after else None) or "gone", had_ended=False)

    def state_once_ended(self, comparison_id: str, *, at_most_seconds: float) -> str:
        """The word of its flow run, which is still its state now where it has not ended by then."""
        until = time.monotonic() + at_most_seconds
        with access.connection(self.settings).prefect() as api:
            while (run := _run_of(api, comparison_id)) is not None and not run.has_ended:
                if time.monotonic() >= until:
                    break
                time.sleep(LOOK_SECONDS)
        return ((run.state_name if run else None) or "gone").lower()

    def _flow_run(self, comparison: Comparison, api: PrefectApi, deployment: Deployment) -> FlowRun:
        """Made once. Its trials find their limits and queues as the settings of whoever asked want them."""
        for each in comparison.contenders:
            bucket, queue = each.request.endpoint.bucket, each.request.card.queue
            api.ensure_limit(limit_name_of(bucket), slots_of(self.settings, bucket))
            limit, priority = queue_limit(self.settings, each.request), 1 if queue == "now" else None
            api.ensure_queue(deployment.pool, queue_name_of(bucket, queue), limit=limit, priority=priority)
        return api.create_flow_run(
            deployment,
            NewRun(
                name=comparison.title,
                parameters={"comparison_id": comparison.id},
                tags=[_TAG, comparison.id],
                work_queue=_QUEUE,
                idempotency_key=comparison.id,
            ),
        )


def _run_of(api: PrefectApi, comparison_id: str) -> FlowRun | None:
    """Its trials carry its id, too, but not the other tag."""
    return next(iter(api.flow_runs_tagged(_TAG, comparison_id, most=1)), None)


@dataclass
class ComparisonWatch:
    """One waiter. `look` may be called every `LOOK_SECONDS`; it asks the server now and then, and else the disk."""

    settings: Settings
    store: ComparisonStore
    trials: Trials
    clock: Callable[[], float] = time.monotonic
    _asked_at: float | None = field(default=None, init=False)
    _end: EndForGood = field(default_factory=EndForGood, init=False)

    def look(self) -> ComparisonReport | None:
        """The report once nobody works on it any more: all trials have ended and it is written, or it was cancelled or
        broke, and some have not. Raises StackNotRunning where none works on it though it has not ended."""
        if self.store.is_written(self.trials.comparison.id):
            return self.store.report(self.trials)
        now = self.clock()
        if self._asked_at is None or now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            return self.store.report(self.trials) if self._has_ended(now) else None
        return None

    def line(self) -> str:
        """Where it stands, on one line."""
        all_trials = self.trials.comparison.trials
        ended = sum(map(self.trials.has_ended, all_trials))
        running = len(self.trials.open_children())
        waiting = len(all_trials) - ended - running
        return f"{ended} of {count(len(all_trials), 'trial')} ended, {running} at work, {waiting} to begin"

    def _has_ended(self, now: float) -> bool:
        with access.connection(self.settings).prefect() as api:
            run = _run_of(api, self.trials.comparison.id)
        return self._end.has_come(run, now)
