"""The schema that editors use says what the reader takes."""

from typing import Any

from delegation.cards import CardFields, schema
from delegation.cards.fields import OTHER_NAMES, PASSED_OVER


def test_the_schema_knows_every_field_and_every_other_word_and_refuses_the_rest():
    card: dict[str, Any] = schema()["$defs"]["card"]
    assert set(card["properties"]) == (set(CardFields.model_fields) | set(OTHER_NAMES) | PASSED_OVER) - {"provider_url"}
    assert card["additionalProperties"] is False
    assert set(OTHER_NAMES.values()) <= set(CardFields.model_fields)
    assert card["properties"]["attempts"] == {
        "default": 1, "maximum": 10, "minimum": 1, "type": "integer", "title": "Attempts",
        "description": "Do it so many times and keep the best.",
    }  # fmt: skip
