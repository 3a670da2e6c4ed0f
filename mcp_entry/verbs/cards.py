"""Cards from outside: the fields somebody gave, checked, with every wrong one named."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from delegation.card import Card
from delegation.errors import UsageError
from delegation.wrong_values import sentence


def fields_of(given: object, what: str) -> dict[str, Any]:
    """The fields of an object that a client sent. Raises UsageError for anything else."""
    if not isinstance(given, dict):
        raise UsageError(f'{what} must be an object of keys and values, such as {{"task": "..."}}')
    return cast(dict[str, Any], given)


def checked_card(fields: Mapping[str, Any], what: str, names: Mapping[str, str] | None = None) -> Card:
    """The card of these fields. Raises UsageError that names each wrong field and what is allowed there.

    `names` gives what the caller knows a field by, where that is another word (a flag).
    """
    task = fields.get("task")
    given = dict(fields)
    if task is None or (isinstance(task, str) and not task.strip()):
        if given.keys() <= Card.model_fields.keys():
            raise UsageError(f"{(names or {}).get('task', 'the task')} is empty: say what is to be done")
        given.pop("task", None)  # a misspelt key is the reason: it is named, and that `task` is missing
    try:
        return Card.model_validate(given)
    except ValidationError as error:
        raise UsageError(f"{what} cannot be used: {sentence(error, Card, names)}") from None
