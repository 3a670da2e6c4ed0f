"""The files below one folder, opened step by step so that no link, race or special file leads anywhere else."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_FILE = (
    os.O_RDONLY | _NO_LINKS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_READ_BYTES = 1 << 20  # at once: as many are set aside before anything is read
_DEPTH = 256  # folders held open at once
_FOLDER = os.O_RDONLY | _NO_LINKS | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


class Tree:
    """A folder held open. Paths are bytes relative to it; every method raises OSError for what is not there.

    Where the system knows folders as descriptors, each part of a path is opened from the one above it, links refused.
    Elsewhere (Windows) the resolved path has to lie below the folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._by_descriptor = os.open in os.supports_dir_fd
        self._chain: list[tuple[bytes, int]] = []
        self._top = os.open(self._root, _FOLDER & ~_NO_LINKS) if self._by_descriptor else -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._forget(0)
        if self._top >= 0:
            os.close(self._top)

    def stat(self, path: bytes) -> os.stat_result:
        """Of the entry itself: a link is not followed."""
        folder, name = self._place(path)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def target(self, path: bytes) -> bytes:
        """Where a link points, as written in it."""
        folder, name = self._place(path)
        return os.readlink(name, dir_fd=folder)

    def read(self, path: bytes, at_most: int) -> bytes:
        """The first bytes of a regular file. Raises OSError for anything else; a pipe is never waited for."""
        folder, name = self._place(path)
        descriptor = os.open(name, _FILE, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            return _content(descriptor, at_most)
        finally:
            os.close(descriptor)

    def entries(self, folder: bytes) -> Iterator[tuple[bytes, os.stat_result | OSError]]:
        """The folder's entries by name, with what each one is."""
        place = self._folder(folder.split(b"/") if folder else [])
        for name in sorted(os.fsencode(name) for name in os.listdir(place)):  # noqa: PTH208 - a descriptor
            path = folder + b"/" + name if folder else name
            try:
                yield name, self.stat(path)
            except OSError as error:
                yield name, error

    def _place(self, path: bytes) -> tuple[int | None, bytes]:
        *folders, name = path.split(b"/")
        if b".." in folders or name in (b"", b".", b".."):
            raise OSError(errno.EINVAL, "not a path below the folder")
        if not self._by_descriptor:
            return None, self._below(path)
        place = self._folder(folders)
        assert isinstance(place, int)
        return place, name

    def _folder(self, parts: Sequence[bytes]) -> int | bytes:
        if not self._by_descriptor:
            return self._below(b"/".join(parts)) if parts else self._root
        if len(parts) > _DEPTH:
            raise OSError(errno.ENAMETOOLONG, "the path has too many parts")
        known = 0
        while known < min(len(parts), len(self._chain)) and self._chain[known][0] == parts[known]:
            known += 1
        self._forget(known)
        for part in parts[known:]:
            above = self._chain[-1][1] if self._chain else self._top
            self._chain.append((part, os.open(part, _FOLDER, dir_fd=above)))
        return self._chain[-1][1] if self._chain else self._top

    def _below(self, path: bytes) -> bytes:
        whole = os.path.join(self._root, path)  # noqa: PTH118 - bytes
        folder = os.path.realpath(os.path.dirname(whole))  # noqa: PTH120 - bytes
        if os.path.commonpath([folder, os.path.realpath(self._root)]) != os.path.realpath(self._root):
            raise OSError(errno.ELOOP, "leads out of the folder")
        return whole

    def _forget(self, keep: int) -> None:
        while len(self._chain) > keep:
            with suppress(OSError):
                os.close(self._chain.pop()[1])


def _content(descriptor: int, at_most: int) -> bytes:
    parts: list[bytes] = []
    left = at_most
    while left > 0 and (part := os.read(descriptor, min(left, _READ_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
