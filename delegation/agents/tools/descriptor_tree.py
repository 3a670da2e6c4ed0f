"""A working tree walked from an open root, one component at a time; a path is never judged as a string."""

import contextlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from delegation.agents.tools.answer import ToolProblem
from delegation.agents.tools.names import Asked, outside
from delegation.agents.tools.places import (
    Content,
    Entry,
    Folder,
    Written,
    entry,
    missing,
    read_regular,
    refuse_git,
    refuse_special,
)

_MAX_LINKS = 40
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class DescriptorTree:
    """Never follows a link that it has not judged itself, so nothing can be swapped between the check and the use."""

    def __init__(self, root: Path, start: PurePosixPath) -> None:
        self.root = root.resolve()
        self.start = start
        self._asked = Asked(root, self.root, start)

    def read(self, path: str, limit: int) -> Content:
        with self._walk(path) as place:
            place.refuse_special()
            descriptor = os.open(place.name, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _CLOEXEC, dir_fd=place.folder)
            try:
                return Content(place.shown, read_regular(descriptor, path, limit))
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes) -> Written:
        with self._walk(path, create=True) as place:
            refuse_git(place.name_in_tree, path)
            found = place.refuse_special()
            place.replace(data, stat.S_IMODE(found.st_mode) if found else None)
            return Written(place.shown, created=found is None)

    def folder(self, path: str) -> Folder:
        with self._walk(path, want_folder=True) as place:
            return Folder(place.shown, tuple(place.entries()))

    def real_path(self, path: str) -> str:
        with self._walk(path) as place:
            if place.name and place.found() is None:
                raise FileNotFoundError
            return place.shown

    @contextmanager
    def _walk(self, path: str, *, create: bool = False, want_folder: bool = False) -> "Generator[_Place]":
        parts = self._asked.parts(path)
        place = _Place(self.root, path, self._asked)
        try:
            place.go(parts, create=create, want_folder=want_folder)
            yield place
        except FileNotFoundError as error:
            raise missing(path, self._asked.shown(place.folder_in_tree), os.listdir(place.folder)) from error  # noqa: PTH208  # a descriptor
        except OSError as error:
            raise ToolProblem(f"cannot use {path!r}: {error.strerror}") from error
        finally:
            place.close()


class _Place:
    """A position in the tree: the open folders from the root down, and the name of the last component."""

    def __init__(self, root: Path, path: str, asked: Asked) -> None:
        self._path = path
        self._asked = asked
        self._open = [os.open(root, _FOLDER)]
        self._names: list[str] = []
        self.name = ""

    @property
    def folder(self) -> int:
        return self._open[-1]

    @property
    def folder_in_tree(self) -> str:
        return "/".join(self._names) or "."

    @property
    def name_in_tree(self) -> str:
        return "/".join([*self._names, self.name] if self.name else self._names) or "."

    @property
    def shown(self) -> str:
        return self._asked.shown(self.name_in_tree)

    def go(self, parts: list[str], *, create: bool, want_folder: bool) -> None:
        """Walk to the last component, or into it when a folder is wanted."""
        todo, links = parts[::-1], 0
        while todo:
            part = todo.pop()
            found = None if part == ".." else _lstat(part, self.folder)
            if part == "..":
                self._up()
            elif found is not None and stat.S_ISLNK(found.st_mode):
                links += 1
                todo.extend(self._target(part, links)[::-1])
            elif todo or want_folder:
                self._down(part, create=create and found is None)
            else:
                self.name = part

    def found(self) -> os.stat_result | None:
        return _lstat(self.name, self.folder)

    def refuse_special(self) -> os.stat_result | None:
        """The stat of the file that is there, None for none. Raises ToolProblem for anything but a regular file."""
        if not self.name:
            raise ToolProblem(f"{self._path!r} is a folder, not a file: use list_files")
        found = self.found()
        if found is not None:
            refuse_special(found, self._path)
        return found

    def entries(self) -> Generator[Entry]:
        for name in sorted(os.listdir(self.folder)):  # noqa: PTH208  # a descriptor
            found = _lstat(name, self.folder)
            if found is not None:
                yield entry(name, found)

    def replace(self, data: bytes, mode: int | None) -> None:
        """Write aside in the same folder and rename: a hard link or a racing link is never written through."""
        aside = f".{self.name[:200]}.{os.getpid()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC
        try:
            descriptor = os.open(aside, flags, 0o666 if mode is None else mode, dir_fd=self.folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
            os.rename(aside, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=self.folder)

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []

    def _up(self) -> None:
        if not self._names:
            raise outside(self._path, self._asked.root)
        os.close(self._open.pop())
        self._names.pop()

    def _down(self, part: str, *, create: bool) -> None:
        if create:
            refuse_git("/".join([*self._names, part]), self._path)
            os.mkdir(part, dir_fd=self.folder)
        self._open.append(os.open(part, _FOLDER | _NOFOLLOW, dir_fd=self.folder))
        self._names.append(part)

    def _target(self, part: str, links: int) -> list[str]:
        if links > _MAX_LINKS:
            raise ToolProblem(f"{self._path!r} goes through too many symbolic links")
        target = os.readlink(part, dir_fd=self.folder)
        if not target.startswith("/"):
            return [piece for piece in target.split("/") if piece not in ("", ".")]
        inside = self._asked.inside(target)
        if inside is None:
            raise ToolProblem(f"{self._path!r} is a symbolic link to {target!r}, outside the working tree: refused")
        while self._names:
            self._up()
        return inside


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
