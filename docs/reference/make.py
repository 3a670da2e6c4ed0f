"""Writes the table of `card.md` from the card itself: `python docs/reference/make.py`. A test compares the two."""

from pathlib import Path
from typing import get_args

from cyclopts import Parameter

from delegation.card import Card
from delegation.wrong_values import allowed_in
from mcp_entry.terminal.card_input import CardOptions

PAGE = Path(__file__).with_name("card.md")
_HEAD = "| field | `delegate run` | may be | default | what |\n|---|---|---|---|---|\n"


def table() -> str:
    """One row for each field."""
    rows = (
        f"| `{name}` | {_flag(name)} | {allowed_in(field)} | {_default(field.get_default())} | {field.description} |"
        for name, field in Card.model_fields.items()
    )
    return _HEAD + "\n".join(rows) + "\n"


def page_with(new: str, page: str) -> str:
    """The page with its table replaced."""
    before, _, rest = page.partition(_HEAD)
    after = rest.partition("\n\n")[2]
    return f"{before}{new}\n{after}"


def _flag(field: str) -> str:
    if field == "task":
        return "`TASK`, `--task-file`"
    option = CardOptions.__dataclass_fields__.get(field)
    if option is None:
        return ""
    named = [each.name for each in get_args(option.type) if isinstance(each, Parameter) and each.name]
    return f"`{named[0][0] if named else '--' + field.replace('_', '-')}`"


def _default(value: object) -> str:
    if str(value) == "PydanticUndefined":
        return "required"
    if value in (None, ()):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    PAGE.write_text(page_with(table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
