"""The verb that lets several models do one card and says which of them did it, how surely, and for how much."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mcp_entry.terminal.common import AsJson, Notify, print_json, print_line, say, service
from mcp_entry.terminal.exits import OK, OTHER_OUTCOME, STOPPED_WAITING
from mcp_entry.terminal.follow import Progress, interruptible

if TYPE_CHECKING:
    from delegation.comparison.report import ComparisonReport
    from mcp_entry.verbs.comparison.comparing import StartedComparison
    from mcp_entry.verbs.service import Service


def compare(  # each is an option
    source: Annotated[
        str | None,
        Parameter(
            name="CARD",
            help="A file of one card, or the ID of a delegation that had it. The ID of a comparison: show that one.",
        ),
    ] = None,
    *,
    models: Annotated[
        list[str] | None, Parameter(show_default=False, negative="", help="The models, as a,b,c (`delegate models`).")
    ] = None,
    repeats: Annotated[
        int | None, Parameter(show_default=False, help="Trials of each model; default the card's attempts, else 1.")
    ] = None,
    in_flight: Annotated[int, Parameter(help="Trials at a time, also those that wait for a slot.")] = 4,
    key: Annotated[str | None, Parameter(show_default=False, help="The same key returns the same comparison.")] = None,
    notify: Notify = None,
    no_wait: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Do not wait for the end; print the id, or how it stands."),
    ] = False,
    json: AsJson = False,
) -> int:
    """Let each model do the same card from the same commit, and compare what they came to.

    Every trial is a delegation of its own, pinned to its model. Exit code 1 where nothing can be said of one of them.
    """
    from delegation.errors import UsageError
    from delegation.ids import COMPARISON_PREFIX
    from mcp_entry.verbs.comparison.cards import card_to_compare

    if source is None:
        raise UsageError("compare on which card? Name its file: `delegate compare CARD --models a,b`")
    verbs = service()
    named = source.strip().startswith(COMPARISON_PREFIX) or verbs.comparing.is_known(source)
    if not models and named and not Path(source).is_file():
        return _stands(verbs, verbs.comparing.identify(source), wait=not no_wait, as_json=json)
    found = card_to_compare(verbs, source)
    card = found.card if key is None else found.card.model_copy(update={"key": key})
    times = found.repeats if repeats is None else repeats
    started = verbs.comparing.submit(card, models or [], repeats=times, in_flight=in_flight, notify=notify)
    return _announce(verbs, started, wait=not no_wait, as_json=json)


def _announce(verbs: "Service", started: "StartedComparison", *, wait: bool, as_json: bool) -> int:
    comparison = started.comparison
    for warning in comparison.warnings:
        if warning not in verbs.settings.warnings:  # those were said when the settings were read
            say(f"warning: {warning}")
    what = "submitted" if started.is_new else "is the comparison of this key"
    say(f"{comparison.id} {what}: {len(comparison.trials)} trials of {', '.join(comparison.models)}")
    if started.ui_url:
        say(f"in the UI: {started.ui_url}")
    if wait:
        return _stands(verbs, comparison.id, wait=True, as_json=as_json)
    _tell(verbs, started, as_json=as_json)
    return OK


def _tell(verbs: "Service", started: "StartedComparison", *, as_json: bool) -> None:
    from mcp_entry.verbs.wording import comparison_watch_command

    comparison = started.comparison
    watch = comparison_watch_command(verbs.settings.home, comparison.id)
    if as_json:
        facts = {
            "id": comparison.id,
            "is_new": started.is_new,
            "flow_run_id": started.flow_run_id,
            "ui_url": started.ui_url,
        }
        trials = [each.model_dump() for each in comparison.trials]
        print_json({**facts, "base_commit": comparison.base_commit, "trials": trials, "watch": watch,
                    "warnings": comparison.warnings})  # fmt: skip
    else:
        print_line(comparison.id)
        say(f"watch it with: {watch}")


def _stands(verbs: "Service", comparison_id: str, *, wait: bool, as_json: bool) -> int:
    """Its report, after waiting for its end where that is wanted."""
    from mcp_entry.verbs.wording import comparison_watch_command

    try:
        report = _followed(verbs, comparison_id) if wait else verbs.comparing.report(comparison_id)
    except KeyboardInterrupt:
        watch = comparison_watch_command(verbs.settings.home, comparison_id)
        say(f"stopped waiting; {comparison_id} goes on. Wait again: {watch}")
        return STOPPED_WAITING
    if wait and not report.is_over:
        say(f"{comparison_id} ended before all of its trials had: see its flow run in the UI")
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not wait and not report.is_over:
        return OK
    return OK if report.says_something_of_each else OTHER_OUTCOME


def _followed(verbs: "Service", comparison_id: str) -> "ComparisonReport":
    from mcp_entry.verbs.comparison.comparing import LOOK_SECONDS

    watch = verbs.comparing.watch(comparison_id)
    with Progress(comparison_id) as progress, interruptible() as interrupted:
        while (report := watch.look()) is None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            progress.show(watch.line())
            time.sleep(LOOK_SECONDS)
    return report


def _show(report: "ComparisonReport") -> None:
    from rich.text import Text

    from delegation.comparison.wording import MODEL_HEAD, model_cells
    from mcp_entry.terminal.shown.render import out, printable, show_table

    console = out()
    console.print(Text(printable(report.title), style="bold"))
    for finding in report.findings:
        console.print(Text(printable(f"  {finding}")))
    show_table(console, MODEL_HEAD, map(model_cells, report.models))
    for line in report.trials:
        said = f"{line.model} trial {line.repeat}: {line.state.replace('_', ' ')}"
        console.print(Text(printable(f"  {line.delegation_id}  {said}"), style="dim"))
    if Path(report.html_path).exists():
        console.print(Text(f"  side by side: {report.html_path}"))
