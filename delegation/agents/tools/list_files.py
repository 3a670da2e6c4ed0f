"""list_files: one folder, or every file below it that fits a pattern."""

from collections.abc import Iterator

import pathspec
from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer, ToolProblem
from delegation.agents.tools.places import Entry
from delegation.agents.tools.tree import Tree
from delegation.values import Value

DESCRIPTION = (
    "List files. Without pattern: the entries of one folder. With pattern (such as '*.py' or 'src/**/*.ts'): "
    "all files below the folder that fit it."
)
_SHOWN = 500
_LOOKED_AT = 50_000
_BULK = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".pytest_cache"})


class Arguments(Value):
    """What list_files takes."""

    path: str = Field(".", description="Folder, relative to the working folder.")
    pattern: str | None = Field(None, min_length=1, description="Glob; one without '/' fits at every depth.")


def run(arguments: Arguments, tree: Tree) -> ToolAnswer:
    """The names. Raises ToolProblem for a missing folder."""
    if arguments.pattern is None:
        return _one_folder(arguments.path, tree)
    return _below(arguments.path, arguments.pattern, tree)


def _one_folder(path: str, tree: Tree) -> ToolAnswer:
    folder = tree.folder(path)
    lines = [_line(entry) for entry in folder.entries[:_SHOWN]]
    if len(folder.entries) > _SHOWN:
        lines.append(f"[... {len(folder.entries) - _SHOWN} more entries: use a pattern ...]")
    return ToolAnswer("\n".join(lines) or "(the folder is empty)", about=f"list_files {folder.path!r}")


def _line(entry: Entry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name}  ({entry.size:,} bytes)"
        case "link":
            return f"{entry.name}  (symbolic link)"
        case "other":
            return f"{entry.name}  (special file)"


def _below(path: str, pattern: str, tree: Tree) -> ToolAnswer:
    fitting = pathspec.GitIgnoreSpec.from_lines([pattern.removeprefix("./")])
    start = tree.real_path(path)
    found, looked_at = list[str](), 0
    for name in _files(start, tree):
        looked_at += 1
        below_start = name.removeprefix(f"{start}/") if start != "." else name
        if fitting.match_file(below_start):
            found.append(name)
        if looked_at == _LOOKED_AT:
            found.append(f"[... stopped after {_LOOKED_AT:,} files: give a deeper path ...]")
            break
    if not found:
        raise ToolProblem(f"no file below {path!r} fits {pattern!r} ({looked_at} files looked at)")
    more = [f"[... {len(found) - _SHOWN} more: give a narrower pattern ...]"] if len(found) > _SHOWN else []
    return ToolAnswer("\n".join(found[:_SHOWN] + more), about=f"list_files {path!r} {pattern!r}")


def _files(start: str, tree: Tree) -> Iterator[str]:
    """Every file and link below the folder; links are not followed, bulk folders are left out."""
    waiting = [start]
    while waiting:
        folder = waiting.pop()
        inner = list[str]()
        try:
            entries = tree.folder(folder).entries
        except ToolProblem:  # gone or not ours to read; a listing shows the rest
            if folder == start:
                raise
            continue
        for entry in entries:
            name = entry.name if folder == "." else f"{folder}/{entry.name}"
            if entry.kind == "folder":
                inner += [] if entry.name in _BULK else [name]
            else:
                yield name
        waiting += reversed(inner)
