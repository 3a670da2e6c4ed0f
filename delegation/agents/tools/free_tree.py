"""A working tree that the file tools may leave, for whoever set DELEGATE_ALLOW_PATH_ESCAPE=1."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from delegation.agents.tools.answer import ToolProblem
from delegation.agents.tools.names import refuse_foreign
from delegation.agents.tools.resolved_tree import ResolvedTree


class FreeTree(ResolvedTree):
    """Any path of this machine that its user may use, except below `hidden` (our own state, with keys in it)."""

    def __init__(self, root: Path, start: PurePosixPath, hidden: Sequence[Path] = ()) -> None:
        super().__init__(root, start)
        self._hidden = tuple(folder.resolve() for folder in hidden)

    def _resolve(self, path: str) -> Path:
        refuse_foreign(path, self.root, may_leave=True)
        try:
            place = (self.root / self.start / Path(path).expanduser()).resolve()
        except (OSError, RuntimeError) as error:
            raise ToolProblem(f"{path!r} leads nowhere") from error
        inside = place.is_relative_to(self.root)
        if not inside and any(place.is_relative_to(folder) for folder in self._hidden):
            raise ToolProblem(f"{path!r} belongs to the program that runs you: refused")
        return place

    def _name(self, place: Path) -> str:
        return super()._name(place) if place.is_relative_to(self.root) else str(place)

    def _name_in_tree(self, place: Path) -> str:
        return os.path.relpath(place, self.root).replace(os.sep, "/")
