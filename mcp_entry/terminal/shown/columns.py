"""Columns that fit the terminal they are shown in: by words where there is room, else one block for each row.

What names a thing (an id, an alias, an address) is never cut or broken: it is there to be copied.
"""

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST_OF_LAST = 24  # below this a wrapped text is harder to read than a block of its own
_UNBOUND = 100_000

Cell = str | Text | None


def show_columns(console: Console, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """The last column may be wrapped between words, no other; the first one names the row."""
    cells = [[_text(cell) for cell in row] for row in rows]
    width = width_of(console)
    if _needed(columns, cells) <= width:
        _show_table(console, columns, cells, width)
    else:
        _show_blocks(console, columns, cells, width)


def width_of(console: Console) -> int:
    """Columns of the terminal, or of `COLUMNS`. What is read by a program is not wrapped at all."""
    return shutil.get_terminal_size((0, 0)).columns or (console.width if console.is_terminal else _UNBOUND)


def _needed(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> int:
    widths = [
        max(cell_len(name), *(line.cell_len for row in rows for line in row[place].split()), 0)
        for place, name in enumerate(columns)
    ]
    return sum(widths[:-1]) + min(widths[-1], _LEAST_OF_LAST) + _GAP * (len(columns) - 1)


def _show_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for place, name in enumerate(columns):
        table.add_column(name, no_wrap=place < len(columns) - 1, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.width = width
    console.print(table, soft_wrap=False)


def _show_blocks(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> None:
    """What fits beside the name stands beside it, the rest below it with its column's name."""
    label_width = max(cell_len(name) for name in columns) + _GAP
    for row in rows:
        beside = _fitting(row, width)
        console.print(Text(" " * _GAP).join(row[:beside]), soft_wrap=True)
        for name, value in zip(columns[beside:], row[beside:], strict=True):
            if not value.plain:
                continue
            for number, line in enumerate(_lines(value, width - label_width - _GAP)):
                label = name.strip() if number == 0 else ""
                console.print(Text(f"{'':{_GAP}}{label:<{label_width}}").append_text(line), soft_wrap=True)


def _fitting(row: Sequence[Text], width: int) -> int:
    """How many of the first cells go on one line, the last never among them."""
    room = width - row[0].cell_len
    count = 1
    for cell in row[1:-1]:
        room -= cell.cell_len + _GAP
        if room < 0:
            break
        count += 1
    return count


def _lines(value: Text, room: int) -> list[Text]:
    """A word longer than the room stays whole."""
    if value.cell_len <= room:
        return [value]
    found = textwrap.wrap(value.plain, max(_LEAST_OF_LAST, room), break_long_words=False, break_on_hyphens=False)
    return [Text(line) for line in found]


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell or "")
