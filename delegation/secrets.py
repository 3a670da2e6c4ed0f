"""Key values on disk: one file of mode 600 per value, named by its hash, so that requests carry only a reference."""

import hashlib
import re
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from delegation.errors import StackError, WorkFailed
from delegation.files import publish
from delegation.home import Home

_REFERENCE = re.compile(r"secret:((?:own-)?[0-9a-f]{32})")
_OWN = "secret:own-"
_STALE_SECONDS = 24 * 3600.0


def keep(home: Home, value: str, *, owner: str | None = None) -> str:
    """Store a value and return `secret:<hash>`; the same value always gives the same reference.

    With an owner (one delegation) the file is that one's alone, and `forget` may remove it.
    Raises StackError naming the folder when it cannot be written.
    """
    name = hashlib.sha256(value.encode()).hexdigest()[:32]
    if owner is not None:
        name = "own-" + hashlib.sha256(f"{owner}\n{value}".encode()).hexdigest()[:32]
    path = home.make(home.secrets) / name
    if _content(path) != value:
        try:
            publish(path, value)
        except OSError as error:
            raise StackError(
                f"cannot write to {str(home.secrets)!r} ({error.strerror}): free space or set DELEGATE_HOME"
            ) from error
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


def forget_stale(home: Home, still_wanted: Callable[[], Collection[str]]) -> int:
    """Remove values of single delegations that are a day old and that no reference names; returns how many.

    `still_wanted` is asked only where there are such values.
    """
    oldest = time.time() - _STALE_SECONDS
    old = [path for path in _files(home.secrets) if path.name.startswith("own-") and _written_at(path) < oldest]
    wanted = {match[1] for reference in (still_wanted() if old else ()) if (match := _REFERENCE.fullmatch(reference))}
    stale = [path for path in old if path.name not in wanted]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def forget_others(home: Home, references: Collection[str]) -> int:
    """Remove every kept value that none of the references names; returns how many. Files of others are left alone."""
    wanted = {match[1] for reference in references if (match := _REFERENCE.fullmatch(reference))}
    stored = [path for path in _files(home.secrets) if _REFERENCE.fullmatch(f"secret:{path.name}")]
    unused = [path for path in stored if path.name not in wanted]
    for path in unused:
        path.unlink(missing_ok=True)
    return len(unused)


def _content(path: Path) -> str | None:
    """The text of a plain file of ours; a link in its place is not followed."""
    try:
        return None if path.is_symlink() else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
