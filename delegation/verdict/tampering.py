"""Signs that a run says nothing: code under test that rewrites its tests, or ends the interpreter."""

import ast
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from delegation.verdict.edits import is_test_path

_UNSEEN = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", "target"})
_State = tuple[int, int, int]


def states(checkout: Path) -> dict[str, _State]:
    """What the file system says of each file of tests: the time of change cannot be set back by a program."""
    return {path: _state(checkout / path) for path in test_code(checkout)}


def rewritten(checkout: Path, before: Mapping[str, _State]) -> tuple[str, ...]:
    """Files of tests that are not what they were."""
    return tuple(sorted(path for path, state in before.items() if _state(checkout / path) != state))


def test_code(checkout: Path) -> Iterator[str]:
    """Paths of the files of a checkout that hold tests, by their names."""
    for folder, folders, files in os.walk(checkout):
        folders[:] = [name for name in folders if name not in _UNSEEN]
        for name in files:
            if name == "conftest.py" or is_test_path(name, by_name=True):
                yield Path(folder, name).relative_to(checkout).as_posix()


def _state(path: Path) -> _State:
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_size, status.st_ctime_ns)


def ends_the_interpreter(base: str | None, candidate: str | None) -> bool:
    """Whether a Python file newly ends the program when it is merely loaded."""
    return _ends(candidate) and not _ends(base)


def _ends(text: str | None) -> bool:
    try:
        body = ast.parse(text or "").body
    except (SyntaxError, ValueError):
        return False
    return any(_is_end(statement) for statement in body)


def _is_end(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit")) | ast.Name(id="SystemExit")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in ("exit", "quit", "_exit")
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=ast.Name(id=owner)))):
            return (owner, name) in (("sys", "exit"), ("os", "_exit"), ("os", "abort"), ("os", "kill"))
        case ast.Try(body=body, finalbody=final):
            return any(_is_end(inner) for inner in (*body, *final))
        case ast.With(body=body):
            return any(_is_end(inner) for inner in body)
        case _:
            return False
