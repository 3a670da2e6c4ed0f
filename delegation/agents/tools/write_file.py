"""write_file: one whole file, in one step."""

from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.tree import Tree
from delegation.records.wording import count
from delegation.values import Value

DESCRIPTION = (
    "Create a file or replace all of its content; missing folders are made. "
    "To change a part of a file use edit_file. At most 8 MiB."
)
MAX_BYTES = 8 * 1024 * 1024


class Arguments(Value):
    """What write_file takes."""

    path: str = Field(description="Path of the file, relative to the working folder.")
    content: str = Field(description="The whole new content of the file.")


def run(arguments: Arguments, tree: Tree) -> ToolAnswer:
    """Write the file. Raises ToolProblem when it is too large, not encodable, or no place for a file."""
    data = _encoded(arguments.content)
    if len(data) > MAX_BYTES:
        raise ToolProblem(
            f"the content has {len(data):,} bytes, more than {MAX_BYTES:,}: write it in parts by run_bash"
        )
    before = _before(arguments.path, tree)
    if before == data:
        return ToolAnswer(f"{arguments.path!r} already has exactly this content: nothing was changed")
    written = tree.write(arguments.path, data)
    lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and bool(data))
    verb = "created" if written.created else "replaced"
    return ToolAnswer(f"{verb} {written.path!r}: {count(lines, 'line')}, {count(len(data), 'byte')}", changed=True)


def _encoded(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolProblem(f"the content has a character that is not valid text at position {error.start}") from error


def _before(path: str, tree: Tree) -> bytes | None:
    """What is there now, None where nothing readable is: the write itself then says what is wrong."""
    try:
        return tree.read(path, MAX_BYTES).data
    except ToolProblem:
        return None
