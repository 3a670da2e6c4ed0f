"""Going on with a delegation that has ended: its change and its conversation, one message more, a new verdict."""

from delegation.card import Card
from delegation.errors import UsageError
from delegation.receipt import Receipt, Verification
from delegation.request import DelegationRequest
from delegation.settings import Settings

_TAIL_CHARACTERS = 6_000
_MOST_NAMES = 30


def card_to_go_on(
    settings: Settings, receipt: Receipt, request: DelegationRequest, added: str, *, model: str | None, key: str | None
) -> Card:
    """The earlier card on the commit that the earlier tree started from; its task says all that was asked by now.

    Raises UsageError for work in place: there is no tree of its own to go on with.
    """
    from delegation.kept_trees import worktree_of

    card = request.card
    if card.isolation == "in_place":
        raise UsageError(
            f"{receipt.id!r} worked in place: its files are yours by now, so start a new delegation on them"
        )
    tree = worktree_of(settings.home, receipt.id)
    base = (tree.base_commit if tree else receipt.base_commit) or card.base
    changes = {
        "task": f"{card.task}\n\n{added}",
        "base": base if request.is_git else card.base,
        "include_dirty": False,  # the base has them already
        "model": model or card.model,
        "key": key,
    }
    return card.model_copy(update=changes)


def message_of(receipt: Receipt, added: str | None) -> str:
    """What is said next: the caller's words, else what the verdict was. Raises UsageError where neither is there."""
    if added is not None and added.strip():
        return added
    checked = receipt.verification
    if checked is None or checked.verdict == "passed":
        raise UsageError(f"{receipt.id!r} is {receipt.outcome}, so there is no failure to pass on: say what to do next "
                         "with --prompt-add TEXT")  # fmt: skip
    return failure_text(checked)


def failure_text(checked: Verification) -> str:
    """The failure as a message to the one who made the change."""
    lines = [f"Your change was judged in a clean checkout by `{checked.command}` and was not accepted."]
    if checked.reason:
        lines.append(f"Reason: {checked.reason}")
    for label, names in (
        ("Newly failing", checked.newly_failing),
        ("Still failing", checked.still_failing),
        ("Wanted, but not passed", checked.missing_wants),
    ):
        if names:
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            lines.append(f"{label}: {', '.join(names[:_MOST_NAMES])}{more}")
    if checked.candidate and checked.candidate.output_tail.strip():
        lines += ["The end of its output:", checked.candidate.output_tail[-_TAIL_CHARACTERS:].rstrip()]
    return "\n".join([*lines, "Find out why, and repair it."])
