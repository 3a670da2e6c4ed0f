"""The verb `apply`: each change by itself, a whole set or nothing, or all as a branch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from delegation.errors import DelegateError, UsageError
from delegation.records.wording import count
from mcp_entry.terminal.common import AsJson, Id, print_json, print_line, say, service
from mcp_entry.terminal.exits import CANNOT, OK, OTHER_OUTCOME
from mcp_entry.verbs.results import AppliedBranch, AppliedPatch, AppliedSet

if TYPE_CHECKING:
    from delegation.combined import Check, SetReport
    from mcp_entry.verbs.service import Service


def _flag(name: str, says: str) -> Parameter:
    return Parameter(name=name, negative="", show_default=False, help=says)


def apply(
    *ids: Id,
    together: Annotated[bool, _flag("--all", "All of them or none, judged together first.")] = False,
    dry_run: Annotated[bool, _flag("--dry-run", "With --all: the report alone; nothing is touched.")] = False,
    branch: Annotated[
        str | None, Parameter(help="As commits of a new branch of that name instead of in the working tree.")
    ] = None,
    any_outcome: Annotated[
        bool, _flag("--any-outcome", "Also a change that was refuted, failed or cancelled, alone or together.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Apply in the order given; each applies cleanly or is refused and leaves the repository untouched."""
    if not ids:
        raise UsageError("apply what? `delegate list` shows the ids")
    if dry_run and not together:
        raise UsageError("--dry-run shows the report of --all: give both")
    verbs = service(at_work=True)
    known = list(dict.fromkeys(verbs.identify(text) for text in ids))
    if together:
        return _apply_together(verbs, known, branch, dry_run=dry_run, any_outcome=any_outcome, as_json=json)
    if branch is not None:
        return _told(verbs.apply_as_branch(known, branch, any_outcome=any_outcome), as_json=json)
    return _apply_each(verbs, known, any_outcome=any_outcome, as_json=json)


def _apply_each(verbs: "Service", known: list[str], *, any_outcome: bool, as_json: bool) -> int:
    results: list[dict[str, Any]] = []
    for delegation_id in known:
        try:
            applied = verbs.apply(delegation_id, any_outcome=any_outcome)
            _say_applied(applied)
            results.append({**vars(applied), "error": None})
        except DelegateError as error:
            say(f"not applied: {error}")
            results.append({"id": delegation_id, "error": str(error)})
    if as_json:
        print_json({"applied": results})
    return CANNOT if any(result["error"] for result in results) else OK


def _apply_together(
    verbs: "Service", known: list[str], branch: str | None, *, dry_run: bool, any_outcome: bool, as_json: bool
) -> int:
    from mcp_entry.verbs.applying import check_report

    report = verbs.report_together(known, any_outcome=any_outcome)
    if not as_json:
        _print_report(report)
    error, done = None, None
    try:
        if dry_run or branch is not None:
            check_report(report, any_outcome=any_outcome)
        if not dry_run and branch is not None:
            done = verbs.apply_as_branch(report.plan.order, branch, any_outcome=any_outcome)
        elif not dry_run:
            done = verbs.apply_together(report, any_outcome=any_outcome)
    except DelegateError as refused:
        error = str(refused)
        say(error.replace("was applied", "would be applied") if dry_run else error)
    if done is not None:
        _say_applied(done)
    if as_json:
        print_json({"report": report_facts(report), "applied": vars(done) if done else None, "error": error})
    return OK if error is None else OTHER_OUTCOME if dry_run else CANNOT


def report_facts(report: "SetReport") -> dict[str, Any]:
    """The report as plain data."""
    return {
        "repo": report.repo,
        "order": report.plan.order,
        "left_out": report.plan.left_out,
        "conflicts": [vars(meeting) for meeting in report.plan.meetings],
        "checks": [vars(check) for check in report.checks],
        "accepted": report.is_accepted,
    }


def _print_report(report: "SetReport") -> None:
    plan = report.plan
    print_line(f"repository  {report.repo}")
    print_line(f"order       {', '.join(plan.order) or 'none can be applied'}")
    for meeting in plan.meetings:
        print_line(f"conflict    {meeting.first} and {meeting.second}: {meeting.reason}")
    for name, reason in plan.left_out.items():
        print_line(f"left out    {name}: {reason}")
    for check in report.checks:
        _print_check(check)
    if plan.is_whole and not report.checks:
        print_line("together    not judged: none has a verify command")


def _print_check(check: "Check") -> None:
    print_line(f"together    {check.verdict}: {check.command}" + (f" ({check.reason})" if check.reason else ""))
    if check.newly_failing:
        print_line(f"  broke     {', '.join(check.newly_failing[:10])}")
    if check.culprit:
        print_line(f"  first in  {check.culprit}")


def _told(made: AppliedBranch, *, as_json: bool) -> int:
    _say_applied(made)
    if as_json:
        print_json({"applied": vars(made)})
    return OK


def _say_applied(done: AppliedPatch | AppliedSet | AppliedBranch) -> None:
    match done:
        case AppliedPatch():
            what = f"{done.id} ({done.outcome}) {_into(done.repo, done.files)}"
        case AppliedSet():
            what = f"{count(len(done.ids), 'change')} {_into(done.repo, done.files, many=len(done.ids) > 1)}"
        case AppliedBranch():
            made = f"{count(len(done.ids), 'change')} as {count(done.commits, 'commit')}"
            what = f"the branch {done.branch} in {done.repo} has {made}"
            if done.commits < len(done.ids):
                what += " (the rest is in HEAD already)"
    say(what)
    for warning in done.warnings if isinstance(done, AppliedPatch) else ():
        say(f"warning: {warning}")
    if done.undo:
        say(f"undo with: {done.undo}")


def _into(repo: str, files: Sequence[str], *, many: bool = False) -> str:
    if not files:
        return f"{'were' if many else 'was'} already applied to {repo}: every file there is as it would be"
    return f"applied to {repo}: {', '.join(files)}"
