"""What became of the files since they were packed."""

from collections.abc import Sequence
from dataclasses import dataclass

from delegation.reading.packing.manifest import Manifest, PackedFile

_NAMED = 40
_YOU = "You see them as they were packed."


@dataclass(frozen=True)
class Changes:
    """Paths as the manifest writes them, in its order."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.gone)

    def __str__(self) -> str:
        """A sentence for the reader and the caller: the answers are about the files as they were."""
        if not self:
            return "The files are as they were when they were packed."
        groups = (("changed", self.changed), ("new", self.added), ("gone", self.gone))
        said = "; ".join(f"{word}: {_named(paths)}" for word, paths in groups if paths)
        return f"Since the files were packed, some are different now ({said}). {_YOU}"


def no_longer_there(reason: object) -> str:
    """The same sentence where they cannot be compared."""
    return f"The files are no longer where they were packed ({reason}). {_YOU}"


def for_the_caller(said: str) -> str:
    """The sentence, which speaks to the reader, for whoever asked."""
    return said.replace(_YOU, "The reader sees them as they were packed.")


def changes(before: Manifest, now: Manifest) -> Changes:
    """Compare by content, not by time."""
    old, new = before.by_path, now.by_path
    return Changes(
        changed=tuple(path for path in old if path in new and _content(old[path]) != _content(new[path])),
        added=tuple(path for path in new if path not in old),
        gone=tuple(path for path in old if path not in new),
    )


def _content(file: PackedFile) -> tuple[str, int]:
    return file.sha256, file.size


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
