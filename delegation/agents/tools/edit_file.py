"""edit_file: replace one exact passage; every other byte stays as it was."""

import re
from collections import Counter
from dataclasses import dataclass

from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.binary import binary_kind
from delegation.agents.tools.text import decoded
from delegation.agents.tools.tree import Tree
from delegation.agents.tools.write_file import MAX_BYTES
from delegation.values import Value

DESCRIPTION = (
    "Replace old_text by new_text in a file. old_text must be exactly what the file has (without line numbers) and "
    "must occur once, unless replace_all is true. Line endings, encoding and byte order mark stay as they are."
)
_NEWLINE = re.compile(r"\r?\n")
_LINE_NUMBERS = re.compile(r"^ *\d+\t", re.MULTILINE)


class Arguments(Value):
    """What edit_file takes."""

    path: str = Field(description="Path of the file, relative to the working folder.")
    old_text: str = Field(description="The passage to replace, exactly as in the file, with its indentation.")
    new_text: str = Field(description="What takes its place.")
    replace_all: bool = Field(False, description="Replace every occurrence instead of exactly one.")


@dataclass(frozen=True)
class _Edited:
    text: str
    lines: list[int]


def run(arguments: Arguments, tree: Tree) -> ToolAnswer:
    """Change the file. Raises ToolProblem telling what was found when the passage is absent or not unique."""
    _check(arguments)
    content = tree.read(arguments.path, MAX_BYTES)
    kind = binary_kind(content.path, content.data)
    if kind is not None:
        raise ToolProblem(f"{arguments.path!r} is not text but {kind}")
    file = decoded(content.data)
    if file.encoded(file.text) != content.data:
        raise ToolProblem(f"{arguments.path!r} is not valid {file.encoding}: change it by run_bash")
    edited = _edited(file.text, arguments)
    try:
        data = file.encoded(edited.text)
    except UnicodeEncodeError as error:
        raise ToolProblem(
            f"{arguments.path!r} is {file.encoding}, which has no {error.object[error.start]!r}"
        ) from error
    if data == content.data:
        raise ToolProblem("nothing would change: this tool keeps the file's line endings; convert them by run_bash")
    tree.write(arguments.path, data)
    times = "1 replacement" if len(edited.lines) == 1 else f"{len(edited.lines)} replacements"
    return ToolAnswer(f"edited {content.path!r}: {times}, at {_places(edited.lines)}", changed=True)


def _check(arguments: Arguments) -> None:
    if arguments.old_text == "":
        raise ToolProblem("old_text is empty: give the passage to replace, or create a file with write_file")
    if arguments.old_text == arguments.new_text:
        raise ToolProblem("old_text and new_text are the same: nothing would change")
    if len(arguments.new_text.encode("utf-8", "replace")) > MAX_BYTES:
        raise ToolProblem(f"new_text is larger than {MAX_BYTES:,} bytes")


def _edited(text: str, arguments: Arguments) -> _Edited:
    found = list(_passage(arguments.old_text).finditer(text))
    if not found:
        raise ToolProblem(_not_found(text, arguments))
    lines = [text.count("\n", 0, match.start()) + 1 for match in found]
    if len(found) > 1 and not arguments.replace_all:
        raise ToolProblem(
            f"old_text occurs {len(found)} times in {arguments.path!r}, at {_places(lines)}: nothing was changed. "
            "Give more of the lines around it, or set replace_all"
        )
    pieces, done = list[str](), 0
    for match in found:
        pieces += [text[done : match.start()], _with_endings(arguments.new_text, match, text)]
        done = match.end()
    return _Edited("".join([*pieces, text[done:]]), lines)


def _passage(old_text: str) -> re.Pattern[str]:
    """The exact passage, where each line break matches LF and CRLF alike."""
    return re.compile(r"\r?\n".join(re.escape(part) for part in _NEWLINE.split(old_text)))


def _with_endings(new_text: str, match: re.Match[str], text: str) -> str:
    """The new text with the line breaks of the passage it replaces, or of the lines around it."""
    old_breaks = _NEWLINE.findall(match.group())
    usual = Counter(old_breaks).most_common(1)[0][0] if old_breaks else _break_near(text, match.end())
    parts = _NEWLINE.split(new_text)
    breaks = (old_breaks + [usual] * len(parts))[: len(parts) - 1]
    return "".join(part + ending for part, ending in zip(parts, [*breaks, ""], strict=True))


def _break_near(text: str, position: int) -> str:
    after = _NEWLINE.search(text, position)
    if after:
        return after.group()
    before = _NEWLINE.findall(text, 0, position)
    return before[-1] if before else "\n"


def _not_found(text: str, arguments: Arguments) -> str:
    path, old_text = arguments.path, arguments.old_text
    answer = f"old_text was not found in {path!r}: nothing was changed."
    if _LINE_NUMBERS.match(old_text) and _passage(_LINE_NUMBERS.sub("", old_text)).search(text):
        return f"{answer} It is there without the line numbers that read_file puts before each line"
    loose = _loose(old_text)
    near = [text.count("\n", 0, match.start()) + 1 for match in loose.finditer(text)] if loose else []
    if near:
        return f"{answer} With other spaces or indentation it is at {_places(near)}: copy it exactly"
    first = next((line.strip() for line in old_text.splitlines() if line.strip()), "")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if first and first in line]
    if lines:
        return (
            f"{answer} Its first line {first[:200]!r} is at {_places(lines)}, but what follows differs: read it again"
        )
    return f"{answer} Not even its first line {first[:200]!r} is there: read the file again"


def _loose(old_text: str) -> re.Pattern[str] | None:
    words = old_text.split()
    if not 0 < len(words) <= 2_000:
        return None
    return re.compile(r"\s+".join(re.escape(word) for word in words))


def _places(lines: list[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:10])
    return f"line{'s' if len(lines) > 1 else ''} {shown}{' ...' if len(lines) > 10 else ''}"
