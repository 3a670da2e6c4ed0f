"""A folder that must stay on this machine is read only by those whose work ends here."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from delegation.card import Lane
from delegation.errors import UsageError, WorkFailed
from delegation.models import lanes
from delegation.models.config_file import read_repository_file
from delegation.reading.packing.manifest import Manifest
from delegation.reading.packing.naming import unshown
from delegation.reading.question import Reader
from delegation.settings import Settings

_MARK = ".delegate.toml"


def lane_of_folder(source: Path, settings: Settings) -> Lane | None:
    """'local' where the settings, or a `.delegate.toml` in the folder or in any folder above, demand it.

    Raises UsageError for such a file that cannot be understood: a demand is never dropped.
    """
    real = source.resolve()
    folder = real if real.is_dir() else real.parent
    if lanes.lane_of_repository(folder, settings) == "local":
        return "local"
    marked = (above for above in folder.parents if (above / _MARK).is_file())
    return "local" if any(read_repository_file(above).lane == "local" for above in marked) else None


def lane_of_pack(source: Path, manifest: Manifest) -> Lane | None:
    """The same for every folder below it from which a file was packed: the mark itself may be ignored, or left out."""
    real = source.resolve()
    folder = real if real.is_dir() else real.parent
    inside = {above for file in manifest.files for above in _folders_of(unshown(file.path))}
    below = (folder / os.fsdecode(each) for each in sorted(inside))
    marked = (each for each in below if (each / _MARK).is_file())
    return "local" if any(read_repository_file(each).lane == "local" for each in marked) else None


def _folders_of(path: bytes) -> Iterator[bytes]:
    """`a/b` and `a` of `a/b/c.py`."""
    while (path := path.rpartition(b"/")[0]) != b"":
        yield path


def those_allowed(readers: Sequence[Reader], lane: Lane | None, source: str | None) -> tuple[Reader, ...]:
    """The readers that may see what is of this lane. Raises WorkFailed('privacy') where none may."""
    if lane != "local":
        return tuple(readers)
    allowed = tuple(reader for reader in readers if reader.stays_local)
    if not allowed:
        names = ", ".join(repr(reader.name) for reader in readers)
        raise WorkFailed(
            "privacy",
            f"{source!r} is marked local, and none of {names} is known to keep work on this machine: use a local "
            'model, or say "upstream_local": true for a provider on this machine that passes nothing on',
        )
    return allowed


def refuse_our_state(source: Path, folders: Sequence[Path]) -> None:
    """Raises UsageError where the folder holds state of ours, lies in it, or is above it."""
    real = source.resolve()
    for place in (folder.resolve() for folder in folders):
        if real.is_relative_to(place) or place.is_relative_to(real):
            raise UsageError(
                f"{str(source)!r} overlaps our state in {str(place)!r}, which is never read: name a folder of its own"
            )
