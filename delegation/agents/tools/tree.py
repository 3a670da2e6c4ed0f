"""The files below one folder, and no others: what the file tools may ask of a working tree."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from delegation.agents.tools.descriptor_tree import DescriptorTree
from delegation.agents.tools.free_tree import FreeTree
from delegation.agents.tools.places import Content, Folder, Written
from delegation.agents.tools.resolved_tree import ResolvedTree


class Tree(Protocol):
    """One working tree. Every method raises ToolProblem with a text for the model."""

    root: Path
    start: PurePosixPath

    def read(self, path: str, limit: int) -> Content:
        """A regular file of at most `limit` bytes."""
        ...

    def write(self, path: str, data: bytes) -> Written:
        """Replace or create a regular file in one step, with its folders; its mode stays."""
        ...

    def folder(self, path: str) -> Folder:
        """The entries of one folder, by name."""
        ...

    def real_path(self, path: str) -> str:
        """Where an existing file or folder really lies, links resolved, as a path from the working folder."""
        ...


def tree_at(root: Path, start: str = ".", *, may_leave: bool = False, hidden: Sequence[Path] = ()) -> Tree:
    """The tree at `root`; relative paths begin in `start`. Open folders judge each path where the system has them.

    With `may_leave` every path is taken, except those below `hidden`.
    """
    if may_leave:
        return FreeTree(root, PurePosixPath(start), hidden)
    with_descriptors = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.readlink} <= os.supports_dir_fd
    kind = DescriptorTree if with_descriptors and hasattr(os, "O_NOFOLLOW") else ResolvedTree
    return kind(root, PurePosixPath(start))
