"""Work in place: which files it changed, and how to take that back. There is nothing to apply."""

import shlex
from pathlib import Path

from delegation.checkout.git import git
from delegation.receipt import Receipt


def files_of(receipt: Receipt) -> tuple[str, ...]:
    """Names of the files of its change, relative to its repository. Raises WorkFailed for a patch that is gone."""
    if receipt.patch is None:
        return ()
    listed = git("apply", "--numstat", "-z", receipt.patch.path, cwd=Path(receipt.repo))
    return tuple(entry.split("\t", 2)[2] for entry in listed.split("\0") if entry.count("\t") >= 2)


def undo_of(receipt: Receipt) -> str | None:
    """A shell command that takes the change back out, as far as nothing else has changed the same lines since."""
    if receipt.patch is None:
        return None
    return f"git -C {shlex.quote(receipt.repo)} apply -R {shlex.quote(receipt.patch.path)}"
