"""A comparison in Prefect's words: its plan, its trials as children of it, and its report as an artifact."""

from uuid import UUID

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed

from delegation import steps
from delegation.card import Card
from delegation.comparison.notice import tell_report
from delegation.comparison.plan import Comparison
from delegation.comparison.planning import plan_of
from delegation.comparison.report import ComparisonReport
from delegation.comparison.store import ComparisonStore
from delegation.comparison.trials import Trials
from delegation.comparison.writing import write_report
from delegation.errors import UsageError
from delegation.notification.notice import Heard, hook_of
from delegation.records.markdown import code
from delegation.records.wording import count
from delegation.request import DelegationRequest
from delegation.settings import load_settings
from delegation.stack_state import live_state, run_url
from tasks import notify
from tasks.children import Children


def children_of(trials: Trials) -> Children:
    """The trials as flow runs, each called by its model and its number."""
    comparison = trials.comparison
    names = {each.delegation_id: f"{each.model} · trial {each.repeat}" for each in comparison.trials}

    def name_of(request: DelegationRequest) -> str:
        return names[request.id]

    return Children(trials, comparison.id, name_of)


def _read(comparison_id: str | None, card: Card | None, models: list[str] | None, repeats: int, in_flight: int) -> str:
    """The id of the plan that stands on disk. One that was started in the UI is planned with the stack's settings; its
    flow run is its key, so that it is planned once."""
    settings = load_settings()
    store = ComparisonStore(settings.home)
    if comparison_id is not None:
        comparison = store.read(comparison_id)
    elif card is None or not models:
        raise UsageError("neither a plan nor a card with models was given: fill in `card` and `models`")
    else:
        own = card.model_copy(update={"key": card.key or flow_run.get_id()})
        hook = hook_of(None, settings)
        comparison = store.create(plan_of(own, models, settings, repeats=repeats, in_flight=in_flight, notify=hook))
    _name_run(comparison)
    logger = get_run_logger()
    said = f"{', '.join(comparison.models)}, {count(comparison.repeats, 'trial')} each"
    logger.info("Comparison %s: %s, %s at a time.", comparison.id, said, comparison.in_flight)
    for warning in comparison.warnings:
        logger.warning("%s", warning)
    return comparison.id


def open_trials(comparison_id: str) -> Trials:
    settings = load_settings()
    return Trials(ComparisonStore(settings.home).read(comparison_id), settings)


def is_written(trials: Trials) -> bool:
    """Whether it has ended before: then nothing is left to do, even where its records are gone by now."""
    return ComparisonStore(trials.settings.home).is_written(trials.comparison.id)


def _name_run(comparison: Comparison) -> None:
    """Give a run that was started in the UI the name and the tags that the front door gives to its own."""
    run_id = flow_run.get_id()
    if run_id is None or comparison.id in flow_run.get_tags():
        return
    with get_client(sync_client=True) as client:
        tags = sorted({*flow_run.get_tags(), "comparison", comparison.id})
        client.update_flow_run(UUID(run_id), name=comparison.title, tags=tags)


def enter_next(trials: Trials) -> None:
    """Give those that are to begin now their rows and records. Raises StackError where the tables do not answer."""
    waiting = trials.next()
    if waiting:
        with steps.shared_state() as state:
            for trial in waiting:
                trials.enter(state, trial)


def _report(trials: Trials) -> ComparisonReport:
    """Write the pages and leave the artifact."""
    report, page = write_report(trials)
    if page is not None:
        where = f"\nWith transcripts side by side, as one page: {code(report.html_path)}\n"
        create_markdown_artifact(page + where, key=report.id, description=_description(report))
    return report


def tell(trials: Trials, found: ComparisonReport, *, at_most_seconds: float = 600.0) -> Heard | None:
    """Tell whoever wants to hear of the report. Never raises for what the command does."""
    state, home = live_state(trials.settings.home), trials.settings.home
    url = run_url(state, flow_run.get_id()) if state else None
    return notify.said(tell_report(trials.comparison, found, home, ui_url=url, at_most_seconds=at_most_seconds))


def _description(report: ComparisonReport) -> str:
    return f"Comparison of {count(len(report.models), 'model')}: {report.ended} of {len(report.trials)} trials ended"


def final_state(report: ComparisonReport, heard: Heard | None) -> State:
    """COMPLETED also where trials failed: the report tells. The message is what may be said."""
    said = " ".join(report.findings) or f"{_description(report)}."
    return Completed(message=f"{said}{notify.remark(heard)}")


read_plan = task(name="plan", task_run_name="plan", cache_policy=NO_CACHE, persist_result=False)(_read)

report = task(name="report", task_run_name="report", cache_policy=NO_CACHE, persist_result=False)(_report)
