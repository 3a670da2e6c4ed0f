"""Writes the tables that repeat the code, on `card.md` and `configuration.md`: `python docs/reference/make.py`.

A test compares the pages with what this writes.
"""

import re
from pathlib import Path
from typing import get_args

from cyclopts import Parameter

from delegation.card import Card
from delegation.variables import Variables
from delegation.wrong_values import allowed_in
from mcp_entry.terminal.card_input import CardOptions

CARD_PAGE = Path(__file__).with_name("card.md")
SETTINGS_PAGE = Path(__file__).with_name("configuration.md")
_CARD_HEAD = "| field | `delegate run` | may be | default | what |\n|---|---|---|---|---|\n"


def card_page(page: str) -> str:
    """The page of the card with its table written anew."""
    before, _, rest = page.partition(_CARD_HEAD)
    after = rest.partition("\n\n")[2]
    return f"{before}{card_table()}\n{after}"


def card_table() -> str:
    """One row for each field."""
    rows = (
        f"| `{name}` | {_flag(name)} | {allowed_in(field)} | {_default(field.get_default())} | {field.description} |"
        for name, field in Card.model_fields.items()
    )
    return _CARD_HEAD + "\n".join(rows) + "\n"


def settings_page(page: str) -> str:
    """The page of the settings with the row of each written anew. Its place in the page is a person's choice."""
    for name, field in Variables.model_fields.items():
        default = "" if field.default in (None, ()) else f"`{field.default}`"
        row = f"| `{field.alias}` | `{name}` | {default} | {field.description} |"
        page, found = re.subn(rf"^\| `{field.alias}` \| `.*$", lambda _, row=row: row, page, flags=re.MULTILINE)
        if found != 1:
            raise SystemExit(f"{SETTINGS_PAGE.name} has {found} rows for {field.alias}, and needs one: {row}")
    return page


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
    for path, written in ((CARD_PAGE, card_page), (SETTINGS_PAGE, settings_page)):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
