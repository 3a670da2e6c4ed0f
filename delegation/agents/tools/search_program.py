"""A search through files, run as a program of its own: reads its question as JSON from stdin, prints path:line:text.

Only the standard library: it starts quickly and needs nothing from the environment it runs in.
"""

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

_BULK = {".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", ".pytest_cache"}
_FILE_BYTES = 16 * 1024 * 1024
_LINE_CHARACTERS = 300


def main() -> int:
    """Print the fitting lines; 2 with a message for a bad expression."""
    asked = json.load(sys.stdin)
    try:
        expression = re.compile(asked["pattern"])
    except re.error as error:
        sys.stderr.write(f"not a regular expression: {error}\n")
        return 2
    left = asked["lines"]
    for path in _files(Path(asked["path"]), asked["glob"]):
        for number, line in enumerate(_text(path).splitlines(), 1):
            if expression.search(line):
                print(f"{path.as_posix()}:{number}:{line[:_LINE_CHARACTERS]}")  # noqa: T201  # its way to answer
                left -= 1
            if left == 0:
                return 0
    return 0


def _files(start: Path, glob: str | None) -> Iterator[Path]:
    if start.is_file():
        yield start
        return
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(set(folders) - _BULK)
        for name in sorted(names):
            path = Path(folder, name)
            if glob is None or fnmatch.fnmatch(name, glob) or fnmatch.fnmatch(path.as_posix(), glob):
                yield path


def _text(path: Path) -> str:
    """The text of a regular file that is neither binary nor huge, else nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _FILE_BYTES:
            return ""
        data = file.read()
    return "" if b"\0" in data[:8192] else data.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
