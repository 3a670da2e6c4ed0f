"""What may stand in a card file: everything of `delegate run`, and what only matters among other cards."""

import unicodedata
from datetime import date
from typing import Any

from pydantic import Field, field_validator, model_validator

from delegation.card import Card, Queue

OTHER_NAMES = {
    "name": "id",
    "prompt": "task",
    "dir": "repo",
    "working_dir": "repo",
    "workdir": "repo",
    "agent_name": "agent",
    "max_iterations": "max_turns",
    "budget": "budget_usd",
    "timeout": "timeout_seconds",
    "verify_timeout": "verify_timeout_seconds",
}
"""Other words for a field: those of the command line, and of `delegate batch`."""

PASSED_OVER = frozenset({"capture_transcript", "$schema"})
"""Keys that may stand in a card and say nothing: every transcript is kept, and a schema is the editor's."""

_LONGEST_ID = 100


class CardFields(Card):
    """A card in a file."""

    id: str = Field(min_length=1, description="What other cards and the report call it; none means the file's name.")
    depends_on: tuple[str, ...] = Field(default=(), description="Ids of cards that must be accepted before it begins.")
    build_on: bool = Field(
        default=False, description="Start from what the one card in `depends_on` made, in the place of `base`."
    )
    priority: int = Field(default=0, ge=-1000, le=1000, description="The higher goes first.")
    attempts: int = Field(default=1, ge=1, le=10, description="Do it so many times and keep the best.")
    review_by: date | None = Field(default=None, description="The day a person wants to look at it, as YYYY-MM-DD.")
    tags: tuple[str, ...] = Field(default=(), description="Words to find it by, in the report and in the UI.")
    queue: Queue = Field(default="night", description="'now' goes before 'night'.")

    @field_validator("id")
    @classmethod
    def _is_a_name(cls, text: str) -> str:
        if text != text.strip() or not text.isprintable():
            raise ValueError("id must be printable, without blanks at its ends")
        if len(text) > _LONGEST_ID:
            raise ValueError(f"id must have at most {_LONGEST_ID} characters")
        return unicodedata.normalize("NFC", text)

    @field_validator("task")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("task must say what is to be done")
        return text

    @model_validator(mode="after")
    def _fit_together(self) -> "CardFields":
        if self.isolation == "in_place" and (self.attempts > 1 or self.build_on):
            raise ValueError("isolation 'in_place' allows neither attempts above 1 nor build_on")
        if self.build_on and len(self.depends_on) != 1:
            raise ValueError("build_on needs exactly one card in depends_on; that one may build on another")
        if self.build_on and self.base != "HEAD":
            raise ValueError("build_on takes the place of base: give one of them")
        if self.provider_url is not None:
            raise ValueError("provider_url cannot stand in a card, which holds no keys: name a model of the catalogue")
        return self

    def card(self) -> Card:
        """The card alone."""
        return Card.model_validate(self.model_dump(include=set(Card.model_fields)))


def same_id(text: str) -> str:
    """What two ids share that a person, or a file system, would take for one."""
    return unicodedata.normalize("NFC", text).strip().casefold()


def schema() -> dict[str, Any]:
    """JSON schema of one card or a list of them, for editors; it knows the other words too."""
    made = CardFields.model_json_schema(ref_template="#/$defs/{model}")
    definitions = made.pop("$defs", {})
    fields = made["properties"]
    fields.pop("provider_url")
    for other, name in OTHER_NAMES.items():
        fields[other] = {**fields[name], "description": f"The same as `{name}`."}
    for name in PASSED_OVER:
        fields[name] = {"description": "Allowed, and passed over."}
    made["required"] = []  # each has another word for it, or comes from the file's name, its text or its folder
    made["title"] = "Card of delegate-flows"
    one = {"$ref": "#/$defs/card"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cards of delegate-flows",
        "oneOf": [one, {"type": "array", "items": one}],
        "$defs": {**definitions, "card": made},
    }
