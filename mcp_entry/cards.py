"""Cards from outside: the fields somebody gave, checked, with every wrong one named."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from delegation.card import Card
from delegation.errors import UsageError


def checked_card(fields: Mapping[str, Any], what: str) -> Card:
    """The card of these fields. Raises UsageError that names each wrong field and what is allowed there."""
    if not str(fields.get("task") or "").strip():
        raise UsageError("the task is empty: say what is to be done")
    try:
        return Card.model_validate(dict(fields))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UsageError(f"{what} cannot be used: {wrong}") from None
