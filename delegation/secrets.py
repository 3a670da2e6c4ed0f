"""Key values on disk: one file of mode 600 per value, named by its hash, so that requests carry only a reference."""

import hashlib
import os
import re
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from delegation.errors import WorkFailed
from delegation.files import publish, told_of
from delegation.home import Home

_REFERENCE = re.compile(r"secret:((?:own-)?[0-9a-f]{32})")
_LEFT_BY_A_CRASH = re.compile(r"\.(?:own-)?[0-9a-f]{32}\..+")  # half written, or half removed
_OWN = "secret:own-"


def keep(home: Home, value: str, *, owner: str | None = None) -> str:
    """Store a value and return `secret:<hash>`; the same value always gives the same reference.

    With an owner (one delegation) the file is that one's alone, and `forget` may remove it. A value that is there
    already counts as new again, so that no sweep takes it before the request that names it is on disk.
    Raises StackError naming the folder when it cannot be written.
    """
    name = hashlib.sha256(value.encode()).hexdigest()[:32]
    if owner is not None:
        name = "own-" + hashlib.sha256(f"{owner}\n{value}".encode()).hexdigest()[:32]
    path = home.make(home.secrets) / name
    if not (_content(path) == value and _touched(path)):
        with told_of(home.secrets):
            publish(path, value)
    return f"secret:{name}"


def value_of(home: Home, reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The value behind `secret:<hash>` or `env:NAME` (of the given environment).

    Raises WorkFailed('auth') when it is gone, with the advice to submit again.
    """
    if reference.startswith("env:"):
        name = reference.removeprefix("env:")
        if value := (environ or {}).get(name):
            return value
        raise WorkFailed("auth", f"{name} is not set where this runs: set it there, then submit again")
    match = _REFERENCE.fullmatch(reference)
    value = _content(home.secrets / match[1]) if match else None
    if value is None:
        raise WorkFailed(
            "auth", f"the key behind {reference!r} is no longer kept: submit again from where the key is set"
        )
    return value


def forget(home: Home, reference: str | None) -> bool:
    """Remove a value that one delegation alone owned; others are shared and stay. Whether there was one."""
    match = _REFERENCE.fullmatch(reference or "")
    if match is None or not (reference or "").startswith(_OWN):
        return False
    path = home.secrets / match[1]
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def forget_unused(home: Home, wanted: Collection[str], *, unused_for_seconds: float) -> int:
    """Remove every value that no reference of `wanted` names and that nobody kept for so long; returns how many.

    Files of others are left alone. Raises OSError when one cannot be removed.
    """
    names = {match[1] for reference in wanted if (match := _REFERENCE.fullmatch(reference))}
    oldest = time.time() - unused_for_seconds
    unused = [path for path in _files(home.secrets) if path.name not in names and _is_older(path, oldest)]
    stored = [path for path in unused if _REFERENCE.fullmatch(f"secret:{path.name}")]
    for path in unused:
        if _LEFT_BY_A_CRASH.fullmatch(path.name):
            path.unlink(missing_ok=True)
    return sum(_removed(path, oldest) for path in stored)


def _removed(path: Path, oldest: float) -> bool:
    """Aside first: a value that somebody kept again at this very moment is put back."""
    aside = path.with_name(f".{path.name}.going")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    if not _is_older(aside, oldest):
        aside.rename(path)
        return False
    aside.unlink(missing_ok=True)
    return True


def _touched(path: Path) -> bool:
    """Whether the file was there to be touched."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _is_older(path: Path, oldest: float) -> bool:
    try:
        return path.lstat().st_mtime < oldest
    except FileNotFoundError:
        return False


def _content(path: Path) -> str | None:
    """The text of a plain file of ours; a link in its place is not followed."""
    try:
        return None if path.is_symlink() else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
