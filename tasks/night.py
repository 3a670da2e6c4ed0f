"""A night in Prefect's words: when it was to begin, its siblings, its cards, and its report as an artifact."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Completed

from delegation.errors import DelegateError
from delegation.files import publish
from delegation.home import Home
from delegation.night import notice
from delegation.night.calendar import Owed, reason_to_skip
from delegation.night.notice import tell_report
from delegation.night.pages import html, markdown
from delegation.night.report import NightReport, report_of
from delegation.night.shift import Shift, open_shift
from delegation.night.surroundings import settings_for
from delegation.night.terms import Terms, end_of
from delegation.night.values import Decision
from delegation.notification.notice import Heard, hook_of
from delegation.records.markdown import code
from delegation.settings import settings_at_work
from delegation.stack_state import live_state, run_url
from tasks import notify

_PAGE = 200


def begun() -> datetime:
    """When this night was to begin; the same after it was taken up again."""
    planned = flow_run.get_scheduled_start_time()
    return datetime.now(UTC) if planned is None else datetime.fromtimestamp(planned.timestamp(), UTC)


def reason_against(terms: Terms) -> str | None:
    """Why this run is not to work, or None. One that has begun before goes on: it was only interrupted."""
    run_id, deployment_id = flow_run.get_id(), deployment.get_id()
    if run_id is None or deployment_id is None or flow_run.get_run_count() > 1:
        return None
    now, planned = datetime.now(UTC), begun()
    with get_client(sync_client=True) as client:
        due = _runs(client, terms, deployment_id=deployment_id, expected=_between(planned, now))
        running = _runs(client, terms, states=[StateType.RUNNING])
    owed = Owed(
        planned=planned,
        later=[run.expected_start_time for run in due if run.auto_scheduled and run.expected_start_time],
        ends=end_of(terms, planned, settings_for(terms.surroundings)),
        under_way=_earlier(running, UUID(run_id)),
    )
    return reason_to_skip(owed, now)


def _between(after: datetime, before: datetime) -> FlowRunFilterExpectedStartTime:
    return FlowRunFilterExpectedStartTime.model_validate({"after_": after, "before_": before})


def _runs(
    client: SyncPrefectClient,
    terms: Terms,
    *,
    deployment_id: str | None = None,
    states: list[StateType] | None = None,
    expected: FlowRunFilterExpectedStartTime | None = None,
) -> list[FlowRun]:
    """Nights on the same cards, of this deployment or of all: a user may have one of their own."""
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[UUID(deployment_id)]) if deployment_id else None,
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states)) if states else None,
        expected_start_time=expected,
    )
    nights = FlowFilter(name=FlowFilterName(any_=[flow_run.get_flow_name() or "night_shift"]))
    found = client.read_flow_runs(flow_filter=nights, flow_run_filter=wanted, limit=_PAGE)
    return [run for run in found if run.parameters.get("cards") == terms.cards]


def _earlier(running: Sequence[FlowRun], mine: UUID) -> str | None:
    """Of several that run at once the first one goes on, so exactly one does."""
    ranks = {run.id: (run.start_time or datetime.now(UTC), str(run.id)) for run in running}
    own = ranks.pop(mine, (datetime.now(UTC), str(mine)))
    first = min(ranks, key=lambda each: ranks[each], default=None)
    return next((run.name for run in running if run.id == first and ranks[run.id] < own), None)


def _read(terms: Terms, part: str, planned: datetime) -> Shift:
    shift = open_shift(terms, part, planned, settings_for(terms.surroundings))
    logger = get_run_logger()
    logger.info("%s cards in %s, night %s.", len(shift.found.cards), shift.found.source, shift.night_id)
    for problem in shift.found.problems:
        logger.warning("Cannot be read, the others go on: %s", problem.text)
    for name, reason in shift.refused.items():
        logger.warning("Card %r will not begin: %s", name, reason)
    return shift


def _report(shift: Shift, decision: Decision) -> NightReport:
    report = report_of(shift, decision, datetime.now(UTC), _ui_url(shift.settings.home))
    page = markdown(report)
    publish(shift.folder / "report.json", report.model_dump_json(indent=1))
    publish(shift.folder / "report.md", page)
    publish(shift.folder / "report.html", html(report))
    file = shift.folder / "report.html"
    where = f"\nAs one page: {code(str(file))}\n"
    create_markdown_artifact(page + where, key=shift.night_id, description=f"Night report: {report.summary}")
    create_link_artifact(
        file.as_uri(), link_text=str(file), key=f"{shift.night_id}-page", description="The same as one page, a file."
    )
    return report


def _ui_url(home: Home) -> str | None:
    state = live_state(home)
    return run_url(state, flow_run.get_id()) if state else None


def tell(shift: Shift, report: NightReport, *, at_most_seconds: float = 600) -> Heard | None:
    """Tell whoever wants to hear of the report. Never raises for what the command does."""
    hook = hook_of(shift.terms.notify, shift.settings)
    if hook is not None:
        hook = hook.model_copy(update={"seconds": min(hook.seconds, at_most_seconds)})
    return notify.said(tell_report(hook, report, home=shift.settings.home, folder=shift.folder))


def tell_problem(terms: Terms, problem: DelegateError) -> None:
    """Tell that there will be no report: the folder is gone, for example."""
    try:
        settings = settings_for(terms.surroundings)
    except DelegateError:
        settings = settings_at_work()
    hook, url = hook_of(terms.notify, settings), _ui_url(settings.home)
    name = flow_run.get_name() or "night"
    notify.said(notice.tell_problem(hook, name, terms.cards, str(problem), home=settings.home, ui_url=url))


def final_state(report: NightReport, heard: Heard | None) -> State:
    """COMPLETED also where some cards failed: the report tells. The message says how many were accepted."""
    stopped = f" Stopped early: {report.stopped}" if report.stopped else ""
    name = "Stopped" if report.stopped else "Completed"
    return Completed(name=name, message=f"Night report: {report.summary}.{stopped}{notify.remark(heard)}")


def name_run(shift: Shift) -> None:
    """The night's own tags, so that it is found with its delegations, whoever made its run."""
    run_id = flow_run.get_id()
    if run_id is None:
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(UUID(run_id), tags=sorted({*flow_run.get_tags(), "night", shift.night_id}))


def skipped(reason: str) -> State:
    """A run that had nothing to do."""
    get_run_logger().info("Not worked: %s.", reason)
    return Completed(name="Skipped", message=reason)


read_cards = task(name="cards", task_run_name="cards", cache_policy=NO_CACHE, persist_result=False)(_read)

report = task(name="report", task_run_name="report", cache_policy=NO_CACHE, persist_result=False)(_report)
