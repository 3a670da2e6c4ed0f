"""Paths as a model writes them, turned into components below the root."""

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from delegation.agents.tools.answer import ToolProblem

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True)
class Asked:
    """Reads paths for one tree: its root as given and resolved, and the folder relative paths begin in."""

    given: Path
    root: Path
    start: PurePosixPath

    def parts(self, path: str) -> list[str]:
        """The components below the root. Raises ToolProblem for what cannot name a place there."""
        refuse_foreign(path, self.root)
        if path.startswith("/") or Path(path).is_absolute():
            inside = self.inside(path)
            if inside is None:
                raise outside(path, self.root)
            return inside
        parts = parts_of(os.path.normpath(f"{self.start.as_posix()}/{path}"))
        if ".." in parts:
            raise outside(path, self.root)
        return parts

    def shown(self, name_in_tree: str) -> str:
        """A path below the root as the model would write it: relative to its working folder."""
        return os.path.relpath(f"/{name_in_tree}", f"/{self.start.as_posix()}").replace(os.sep, "/")

    def inside(self, path: str) -> list[str] | None:
        """The components of an absolute path below the root, None when it lies elsewhere."""
        normal = PurePosixPath(os.path.normpath(path))
        for root in (self.root, self.given.absolute()):
            if normal.is_relative_to(root.as_posix()):
                return list(normal.relative_to(root.as_posix()).parts)
        return None


def parts_of(path: str) -> list[str]:
    """The components of a relative path, without the empty ones and the dots."""
    return [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]


def outside(path: str, root: Path) -> ToolProblem:
    """The refusal of a path that leaves the tree."""
    return ToolProblem(
        f"{path!r} is outside the working tree {str(root)!r}: refused. Give a path relative to the working folder"
    )


def refuse_foreign(path: str, root: Path, *, may_leave: bool = False) -> None:
    """Raises ToolProblem for what is no path of this system, or begins at a place outside of every tree."""
    if not path.strip():
        raise ToolProblem("the path is empty: give a path relative to the working folder")
    if "\0" in path:
        raise ToolProblem(f"the path {path!r} contains a NUL character: refused")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolProblem(f"the path {path!r} is not valid text: refused") from error
    if may_leave:
        return
    if _SCHEME.match(path) or (_DRIVE.match(path) and os.name != "nt") or path == "~" or path.startswith("~/"):
        raise outside(path, root)
