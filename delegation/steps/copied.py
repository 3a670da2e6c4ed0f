"""A run that somebody started in the UI from another one's parameters: a delegation of its own, with that one as its
parent, and never that one once more."""

from datetime import UTC, datetime

from delegation.admission import admit
from delegation.card import Card
from delegation.ids import new_id
from delegation.request import DelegationRequest
from delegation.settings import load_settings

_AS_IT_IS = frozenset(
    ("task", "verify", "setup", "expects", "accept", "wants", "verify_timeout_seconds", "queue", "include", "key")
)
"""Fields of a card that are read when they are needed. Every other one was resolved at submission."""


def copy_of(given: DelegationRequest, recorded: DelegationRequest) -> DelegationRequest:
    """The request of the copy. `given` is what the form held, `recorded` what was submitted.

    Where the card asks for another model, agent, repository, base or limit, it is admitted anew with the settings of
    the stack; raises UsageError where that cannot be. Otherwise everything is as it was, from the same commit.
    """
    card = _card(given, recorded)
    if _is_resolved_otherwise(card, recorded.card):
        anew = admit(_on_its_commit(card, recorded), load_settings(), tool="ui", parent_id=recorded.id)
        return anew.model_copy(update={"warnings": (*anew.warnings, _remark(recorded))})
    return given.model_copy(
        update={
            "id": new_id("dg"),
            "card": card,
            "parent_id": recorded.id,
            "added": None,
            "night_id": None,
            "task_in_record": False,
            "tool": "ui",
            "warnings": tuple(dict.fromkeys((*given.warnings, _remark(recorded)))),
            "created_at": datetime.now(UTC),
        }
    )


def _card(given: DelegationRequest, recorded: DelegationRequest) -> Card:
    """A task too long for a parameter is in the record; the form holds its beginning."""
    changes: dict[str, object] = {"key": None}
    if given.task_in_record and recorded.card.task.startswith(given.card.task):
        changes["task"] = recorded.card.task
    return given.card.model_copy(update=changes)


def _is_resolved_otherwise(card: Card, before: Card) -> bool:
    return any(getattr(card, name) != getattr(before, name) for name in set(Card.model_fields) - _AS_IT_IS)


def _on_its_commit(card: Card, recorded: DelegationRequest) -> Card:
    """A name that nobody changed means the commit that it meant then."""
    if card.base != recorded.card.base or card.include_dirty or recorded.base_commit is None:
        return card
    return card.model_copy(update={"base": recorded.base_commit})


def _remark(recorded: DelegationRequest) -> str:
    return f"started in the UI from the parameters of {recorded.id}"
