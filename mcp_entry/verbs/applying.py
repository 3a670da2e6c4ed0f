"""Bringing changes home: into the working tree, as a branch, one or a whole set."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from delegation.errors import UsageError
from delegation.receipt import FREELY_APPLIED, Receipt
from delegation.records.wording import FLAGS
from mcp_entry.verbs.results import AppliedBranch, AppliedPatch, AppliedSet
from mcp_entry.verbs.wording import verdict_line

if TYPE_CHECKING:
    from delegation.checkout.merging import Piece
    from delegation.combined import SetReport
    from delegation.records.applied import How
    from mcp_entry.verbs.service import Service

UNDO_FILE = "undo.diff"


def apply_one(verbs: "Service", text: str, *, any_outcome: bool) -> AppliedPatch:
    """One change into the working tree; see `Service.apply`."""
    from delegation.checkout.apply import apply_pieces

    receipt = _accepted(verbs.receipt(text), any_outcome)
    undo = verbs.records.folder(receipt.id) / UNDO_FILE
    applied = apply_pieces(Path(receipt.repo), [_piece(verbs, receipt)], undo=undo)
    _note(verbs, [receipt], "working_tree", receipt.repo)
    warnings = doubts_of(receipt) if applied.files else ()
    return AppliedPatch(receipt.id, receipt.repo, receipt.outcome, tuple(applied.files), applied.undo, warnings)


def apply_as_branch(verbs: "Service", texts: Sequence[str], name: str, *, any_outcome: bool) -> AppliedBranch:
    """A new branch with one commit for each change; the working tree stays as it is."""
    from delegation.checkout.patch_set import make_branch

    receipts = [_accepted(verbs.receipt(text), any_outcome) for text in texts]
    repo = _one_repository(receipts)
    made = make_branch(Path(repo), name, [_piece(verbs, receipt) for receipt in receipts])
    _note(verbs, receipts, "branch", name)
    undo = f"git -C {_quoted(repo)} branch -D {_quoted(name)}"
    return AppliedBranch(tuple(receipt.id for receipt in receipts), repo, made.name, made.commit, made.commits, undo)


def report_together(
    verbs: "Service", texts: Sequence[str], *, any_outcome: bool, say: Callable[[str], None]
) -> "SetReport":
    """What the set would be; nothing is touched."""
    from delegation.combined import Member, report_of

    receipts = [_accepted(verbs.receipt(text), any_outcome) for text in texts]
    members = [Member(_piece(verbs, receipt), verbs.records.request(receipt.id)) for receipt in receipts]
    return report_of(verbs.settings.home, members, say)


def apply_together(verbs: "Service", report: "SetReport", *, any_outcome: bool) -> AppliedSet:
    """All of a set into the working tree, or nothing."""
    from delegation.checkout.apply import apply_pieces

    check_report(report, any_outcome=any_outcome)
    receipts = [verbs.receipt(name) for name in report.plan.order]
    undo = verbs.records.folder(receipts[0].id) / f"set-{UNDO_FILE}"
    applied = apply_pieces(Path(report.repo), [_piece(verbs, receipt) for receipt in receipts], undo=undo)
    _note(verbs, receipts, "together", report.repo)
    return AppliedSet(report.plan.order, report.repo, tuple(applied.files), applied.undo)


def _note(verbs: "Service", receipts: Sequence[Receipt], how: "How", where: str) -> None:
    """In each record. One that cannot be written keeps its change among the unapplied, which no sweep touches."""
    from delegation.records.applied import Applied, note_applied

    ids = tuple(receipt.id for receipt in receipts) if len(receipts) > 1 else ()
    for receipt in receipts:
        sha256 = receipt.patch.sha256 if receipt.patch else None
        with suppress(OSError):
            note_applied(verbs.records.folder(receipt.id), Applied(how=how, where=where, ids=ids, sha256=sha256))


def check_report(report: "SetReport", *, any_outcome: bool) -> None:
    """Raises UsageError unless all go in together and are accepted together."""
    if not report.plan.is_whole:
        names = "; ".join(f"{name}: {reason}" for name, reason in report.plan.left_out.items())
        raise UsageError(f"nothing was applied, these cannot be applied: {names}")
    refused = [check for check in report.checks if check.verdict != "passed"]
    if refused and not any_outcome:
        check = refused[0]
        blame = f"; {check.culprit} is the first to break it" if check.culprit else ""
        raise UsageError(
            f"nothing was applied: {check.command!r} does not accept them together ({check.reason}){blame}; "
            "leave some out, or add --any-outcome"
        )


def doubts_of(receipt: Receipt) -> tuple[str, ...]:
    """What to know of a change that goes in although nothing has judged it."""
    if receipt.outcome != "unverified":
        return ()
    flags = "".join(f"; {flag}: {FLAGS[flag]}" for flag in receipt.flags)
    return (f"{receipt.id} is unverified, {verdict_line(receipt)}{flags}",)


def _accepted(receipt: Receipt, any_outcome: bool) -> Receipt:
    if receipt.patch is None:
        raise UsageError(f"{receipt.id!r} is {receipt.outcome} and left no change: there is nothing to apply")
    if receipt.isolation == "in_place":
        raise UsageError(f"{receipt.id!r} worked in place: its change is in {receipt.repo!r} already")
    if receipt.outcome not in FREELY_APPLIED and not any_outcome:
        raise UsageError(
            f"{receipt.id!r} is {receipt.outcome}, so its patch is not applied: read it with "
            f"`delegate patch {receipt.id}`, and add --any-outcome to apply it all the same"
        )
    return receipt


def _piece(verbs: "Service", receipt: Receipt) -> "Piece":
    from delegation.checkout.merging import Piece

    title = verbs.records.entry(receipt.id).title
    base = receipt.base_commit or ""  # a plain folder has none
    return Piece(receipt.id, verbs.patch(receipt.id).path, base, f"{title}\n\nDelegation {receipt.id}")


def _one_repository(receipts: Sequence[Receipt]) -> str:
    repos = {receipt.repo for receipt in receipts}
    if len(repos) != 1:
        raise UsageError(f"the changes belong to {len(repos)} repositories: a branch lies in one")
    return repos.pop()


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
