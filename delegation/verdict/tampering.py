"""Signs that a run says nothing: code under test that rewrites its tests, ends the interpreter, or forges results."""

import ast
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from delegation.receipt import CommandRun
from delegation.verdict.edits import is_test_path

_UNSEEN = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", "target"})
_MOST_FILES = 200
_State = tuple[int, int, int]

_CANARIES = """

def test_canary_{word}():
    assert 1 == 2, "written to fail"


import unittest as _unittest_{word}


class Canary_{word}(_unittest_{word}.TestCase):
    def test_canary_{word}_equal(self):
        self.assertEqual(1, 2)

    def test_canary_{word}_true(self):
        self.assertTrue(False)

    def test_canary_{word}_raises(self):
        raise AssertionError("written to fail")
"""


def states(checkout: Path) -> dict[str, _State]:
    """What the file system says of each file of tests: the time of change cannot be set back by a program."""
    return {path: _state(checkout / path) for path in _test_code(checkout)}


def rewritten(checkout: Path, before: Mapping[str, _State]) -> tuple[str, ...]:
    """Files of tests that are not what they were."""
    return tuple(sorted(path for path, state in before.items() if _state(checkout / path) != state))


def _test_code(checkout: Path) -> Iterator[str]:
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


@dataclass(frozen=True)
class Canaries:
    """Tests that must fail, written into the test files of one throw-away checkout under a name nobody can know."""

    tests: frozenset[str]
    word: str = field(default_factory=lambda: secrets.token_hex(6))

    def plant(self, checkout: Path, folder: Path) -> bool:
        """Append them to the Python files that the tests stand in. False where there is none."""
        files = set(list(_files_of(self.tests, checkout, folder))[:_MOST_FILES])
        for file in files:
            text = file.read_bytes().decode("utf-8", "surrogateescape")
            file.write_bytes((text + _CANARIES.format(word=self.word)).encode("utf-8", "surrogateescape"))
        return bool(files)

    def all_failed(self, run: CommandRun) -> bool:
        """Whether some were run and every one failed, as it must."""
        seen = frozenset(name for name in run.tests or {} if self.word in name)
        return bool(seen) and seen == self.failed(run)

    def failed(self, run: CommandRun) -> frozenset[str]:
        seen = (run.tests or {}).items()
        return frozenset(name for name, status in seen if self.word in name and status in ("failed", "error"))


def _files_of(tests: Iterable[str], checkout: Path, folder: Path) -> Iterator[Path]:
    for test in sorted(tests):
        name = test.split("::")[0]
        candidates = [checkout / name, folder / name] if name.endswith(".py") else list(_modules(test, folder))
        inside = (file for file in candidates if file.is_relative_to(checkout) and not file.is_symlink())
        found = next((file for file in inside if file.is_file()), None)
        if found and is_test_path(found.relative_to(checkout).as_posix()):
            yield found


def _modules(test: str, folder: Path) -> Iterator[Path]:
    """Where the module of a dotted name may lie: `tests.test_m.T.test_add`."""
    parts = test.split(".")
    for length in range(len(parts) - 1, 0, -1):
        for root in (folder, folder / "tests", folder / "test"):
            yield root.joinpath(*parts[:length]).with_suffix(".py")


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
