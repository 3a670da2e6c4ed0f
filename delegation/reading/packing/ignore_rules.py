"""Nested `.gitignore` files where there is no repository to ask: git's own rules, level by level."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pathspec import GitIgnoreSpec

IGNORE_FILE = b".gitignore"
_ANY_FOLDER_BELOW = re.compile(r"(?<![^/!])\*\*/( *)\Z")  # `x/**/`, which pathspec reads as `x/`
_FOLDER_MARK = "ps_d"  # pathspec's group around the slash that ends a folder's name


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in one folder: its own file's, before those of the folders above it."""

    folder: str = ""
    patterns: tuple[Any, ...] = ()
    above: "IgnoreRules | None" = None

    def below(self, folder: str, content: bytes | None) -> "IgnoreRules":
        """The rules of a subfolder, given the content of its ignore file."""
        return self if content is None else IgnoreRules(folder, _patterns(content), self)

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether the entry is left out. The folders above it are known not to be: they would not have been entered."""
        for rules in self._levels():
            inner = path[len(rules.folder) + 1 :] if rules.folder else path
            for pattern in reversed(rules.patterns):
                if _names(pattern, inner, is_folder):
                    return bool(pattern.include)
        return False

    def _levels(self) -> Iterator["IgnoreRules"]:
        level: IgnoreRules | None = self
        while level is not None:
            yield level
            level = level.above


def _patterns(content: bytes) -> tuple[Any, ...]:
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    readable = [pattern for line in lines for pattern in _read(line)]
    return tuple(pattern for pattern in readable if pattern.include is not None)


def _read(line: str) -> list[Any]:
    try:
        return list(GitIgnoreSpec.from_lines([_ANY_FOLDER_BELOW.sub(r"**/*/\1", line)]).patterns)
    except ValueError:  # git, too, passes over what it cannot read
        return []


def _names(pattern: Any, path: str, is_folder: bool) -> bool:
    """Whether the pattern means this entry itself, and not only a folder above it (that one was decided before)."""
    by_name = _FOLDER_MARK in pattern.regex.groupindex
    subject = f"{path}/" if is_folder and by_name else path
    ends = (found.end(_FOLDER_MARK) if by_name else -1 for found in pattern.regex.finditer(subject))
    return any(end in (-1, len(path) + 1) for end in ends)
