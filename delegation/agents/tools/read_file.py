"""read_file: numbered lines of one text file, a range or both ends."""

from dataclasses import dataclass

from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.binary import binary_kind
from delegation.agents.tools.text import decoded, safe
from delegation.agents.tools.tree import Tree
from delegation.values import Value

DESCRIPTION = (
    "Read a text file. Lines are numbered; the first line of the result is '[lines N-M of TOTAL]'. "
    "Without offset and limit a long file gives its beginning and its end: read the rest by range."
)
_READ_BYTES = 64 * 1024 * 1024
_WHOLE_CHARACTERS = 10_000
_RANGE_BYTES = 50_000
_LINE_CHARACTERS = 2_000


class Arguments(Value):
    """What read_file takes."""

    path: str = Field(description="Path of the file, relative to the working folder.")
    offset: int | None = Field(None, ge=1, description="First line to show, counted from 1.")
    limit: int | None = Field(None, ge=1, description="Number of lines to show.")


@dataclass(frozen=True)
class _Lines:
    """A file's lines as shown, each with its number."""

    shown: list[str]
    note: str

    @property
    def total(self) -> int:
        return len(self.shown)


def run(arguments: Arguments, tree: Tree) -> ToolAnswer:
    """The numbered text. Raises ToolProblem for a binary, missing, special or too large file."""
    content = tree.read(arguments.path, _READ_BYTES)
    kind = binary_kind(content.path, content.data)
    if kind is not None:
        raise ToolProblem(f"{arguments.path!r} is not text but {kind}")
    lines = _lines(content.data)
    if lines.total == 0:
        return ToolAnswer("[lines 0-0 of 0] (the file is empty)", about=f"read_file {content.path!r} (empty)")
    if arguments.offset is None and arguments.limit is None:
        return _whole(content.path, lines)
    return _range(content.path, lines, arguments.offset or 1, arguments.limit)


def _lines(data: bytes) -> _Lines:
    file = decoded(data)
    text = safe(file.text)
    note = (
        "" if file.encoding == "utf-8" and not file.mark else f" ({file.encoding}{', with BOM' if file.mark else ''})"
    )
    if "\r\n" in text:
        note += " (CRLF line endings)" if text.count("\r\n") == text.count("\n") else " (mixed line endings)"
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return _Lines([_numbered(number, line.removesuffix("\r")) for number, line in enumerate(lines, 1)], note)


def _numbered(number: int, line: str) -> str:
    if len(line) > _LINE_CHARACTERS:
        line = f"{line[:_LINE_CHARACTERS]}[... {len(line) - _LINE_CHARACTERS:,} more characters in this line]"
    return f"{number:>6}\t{line}"


def _whole(path: str, lines: _Lines) -> ToolAnswer:
    if sum(len(line) + 1 for line in lines.shown) <= _WHOLE_CHARACTERS:
        return _answer(path, lines, 1, lines.total, lines.shown)
    head = _fitting(lines.shown, _WHOLE_CHARACTERS // 2)
    tail = _fitting(lines.shown[::-1], _WHOLE_CHARACTERS // 2)
    first, last = head + 1, max(head, lines.total - tail)
    if first > last:
        return _answer(path, lines, 1, lines.total, lines.shown)
    gap = (
        f"[... lines {first}-{last} left out. Read them with offset={first} and limit=..., or find the place with "
        "search_files ...]"
    )
    text = "\n".join(
        [
            f"[lines 1-{head} and {last + 1}-{lines.total} of {lines.total}]{lines.note}",
            *lines.shown[:head],
            gap,
            *lines.shown[last:],
        ]
    )
    return ToolAnswer(text, about=f"read_file {path!r} lines 1-{head} and {last + 1}-{lines.total} of {lines.total}")


def _range(path: str, lines: _Lines, offset: int, limit: int | None) -> ToolAnswer:
    if offset > lines.total:
        raise ToolProblem(f"{path!r} has {lines.total} lines; offset {offset} is past its end")
    wanted = lines.shown[offset - 1 : offset - 1 + limit if limit else None]
    fitting = _fitting(wanted, _RANGE_BYTES, in_bytes=True)
    answer = _answer(path, lines, offset, offset + fitting - 1, wanted[:fitting])
    if fitting == len(wanted):
        return answer
    more = f"\n[one call shows at most {_RANGE_BYTES:,} bytes: go on with offset={offset + fitting}]"
    return ToolAnswer(answer.text + more, about=answer.about)


def _answer(path: str, lines: _Lines, first: int, last: int, shown: list[str]) -> ToolAnswer:
    place = f"lines {first}-{last} of {lines.total}"
    return ToolAnswer("\n".join([f"[{place}]{lines.note}", *shown]), about=f"read_file {path!r} {place}")


def _fitting(lines: list[str], limit: int, *, in_bytes: bool = False) -> int:
    """How many of the lines fit into the limit, at least one."""
    used = 0
    for count, line in enumerate(lines):
        used += (len(line.encode("utf-8")) if in_bytes else len(line)) + 1
        if used > limit and count:
            return count
    return len(lines)
