"""Files that a checkout converts: which form must be stored so that a checkout gives these bytes again."""

import os
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from delegation.checkout.private_git import PrivateGit

_CONVERTING = ("eol", "ident", "working-tree-encoding")


class _Content(Protocol):
    @property
    def path(self) -> bytes: ...
    @property
    def old_id(self) -> str | None: ...
    @property
    def old_mode(self) -> bytes | None: ...


_Change = TypeVar("_Change", bound=_Content)


class Conversion:
    """The conversions of one tree, asked from git itself. No filter program is ever configured here."""

    def __init__(self, private_git: PrivateGit) -> None:
        self._private_git = private_git

    def concerned(self, changes: Sequence[_Change]) -> list[_Change]:
        """Those that a checkout may give other bytes than are stored. Most trees have none."""
        if not changes:
            return []
        if any(option.startswith("core.autocrlf=") for option in self._private_git.options):
            return list(changes)
        converted = self._converted(change.path for change in changes)
        return [change for change in changes if change.path in converted]

    def stored_form(self, change: _Content, raw_id: str) -> str:
        """The id to store for a file whose bytes have the id `raw_id`: the old one where a checkout gives the same
        bytes, the raw one where the old content was stored raw, git's own form where it comes back exactly (or where
        nothing can)."""
        raw = self._private_git.output("cat-file", "blob", raw_id)
        old = change.old_id if change.old_mode in (b"100644", b"100755") else None
        if old and set(old) != {"0"}:
            checked_out = self._checked_out(change.path, old)
            if checked_out == raw:
                return old
            if checked_out == self._private_git.output("cat-file", "blob", old):
                return raw_id
        answer = self._private_git.ask("hash-object", "-w", "--stdin", f"--path={os.fsdecode(change.path)}", stdin=raw)
        cleaned = answer.stdout.decode().strip()
        if answer.exit_code != 0:
            return raw_id
        comes_back = self._checked_out(change.path, cleaned) == raw
        return cleaned if comes_back or self._checked_out(change.path, raw_id) != raw else raw_id

    def _converted(self, paths: Iterable[bytes]) -> set[bytes]:
        names = b"".join(path + b"\0" for path in paths)
        fields = iter(
            self._private_git.output("check-attr", "-z", "--stdin", *_CONVERTING, stdin=names).split(b"\0")[:-1]
        )
        triples = zip(fields, fields, fields, strict=True)
        return {path for path, name, value in triples if _converts(name, value)}

    def _checked_out(self, path: bytes, blob: str) -> bytes | None:
        answer = self._private_git.ask("cat-file", "--filters", f"--path={os.fsdecode(path)}", blob)
        return answer.stdout if answer.exit_code == 0 else None


def _converts(name: bytes, value: bytes) -> bool:
    if name == b"eol":
        return value == b"crlf"
    return value not in (b"unspecified", b"unset")
