"""A working tree for systems without folder descriptors: resolve, compare with the resolved root, then open."""

import os
import stat
from pathlib import Path, PurePosixPath

from delegation.agents.tools.answer import ToolProblem
from delegation.agents.tools.names import Asked, outside
from delegation.agents.tools.places import (
    Content,
    Folder,
    Written,
    entry,
    missing,
    read_regular,
    refuse_git,
    refuse_special,
)


class ResolvedTree:
    """Weaker than open folders only against a folder swapped for a link between check and use by a running process."""

    def __init__(self, root: Path, start: PurePosixPath) -> None:
        self.root = root.resolve()
        self.start = start
        self._asked = Asked(root, self.root, start)

    def read(self, path: str, limit: int) -> Content:
        place = self._existing(path)
        try:
            refuse_special(place.stat(), path)
            descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(descriptor, "rb") as file:
                return Content(self._name(place), read_regular(file.fileno(), path, limit))
        except OSError as error:
            raise ToolProblem(f"cannot use {path!r}: {error.strerror}") from error

    def write(self, path: str, data: bytes) -> Written:
        place = self._resolve(path)
        refuse_git(self._name_in_tree(place), path)
        aside = place.with_name(f".{place.name[:200]}.{os.getpid()}.part")
        try:
            found = place.stat() if place.exists() else None
            if found is not None:
                refuse_special(found, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(data)
            if found is not None:
                aside.chmod(stat.S_IMODE(found.st_mode))
            aside.replace(place)
        except OSError as error:
            raise ToolProblem(f"cannot use {path!r}: {error.strerror}") from error
        finally:
            aside.unlink(missing_ok=True)
        return Written(self._name(place), created=found is None)

    def folder(self, path: str) -> Folder:
        place = self._existing(path)
        try:
            names = sorted(os.listdir(place))  # noqa: PTH208  # names only
        except OSError as error:
            raise ToolProblem(f"cannot use {path!r}: {error.strerror}") from error
        return Folder(self._name(place), tuple(entry(name, (place / name).lstat()) for name in names))

    def real_path(self, path: str) -> str:
        return self._name(self._existing(path))

    def _existing(self, path: str) -> Path:
        place = self._resolve(path)
        if place.exists():
            return place
        near = next(parent for parent in place.parents if parent.is_dir())
        raise missing(path, self._name(near), os.listdir(near))  # noqa: PTH208  # names only

    def _resolve(self, path: str) -> Path:
        try:
            place = self.root.joinpath(*self._asked.parts(path)).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: a circle of links, before Python 3.13
            raise ToolProblem(f"{path!r} goes through a symbolic link that leads nowhere") from error
        if place.is_symlink():  # a circle, from Python 3.13 on
            raise ToolProblem(f"{path!r} goes through a symbolic link that leads nowhere")
        if not place.is_relative_to(self.root):
            raise outside(path, self.root)
        return place

    def _name(self, place: Path) -> str:
        return self._asked.shown(self._name_in_tree(place))

    def _name_in_tree(self, place: Path) -> str:
        return place.relative_to(self.root).as_posix()
