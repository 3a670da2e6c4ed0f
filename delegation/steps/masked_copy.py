"""A folder that a program filled, copied into a record: no secret that it was given, and nothing from elsewhere."""

import errno
import itertools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from delegation.harnesses.sanitising import exception_text
from delegation.masking import MASK, Mask

MOST_BYTES = 1024**3
_PIECE_BYTES = 1024 * 1024


def copy_masked(source: Path, target: Path, mask: Mask) -> tuple[str, ...]:
    """Copy files, folders and links, masked in content, in name, and in where a link leads; says why what was not kept
    was not, each reason once.

    A link is copied as a link and never followed; pipes, sockets and devices are left out, and what goes beyond a
    gigabyte in all. `target` does not exist. Raises OSError when `source` is no folder of its own, or `target` cannot
    be made.
    """
    if source.is_symlink() or not source.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(source))
    target.mkdir(mode=0o700)
    copy = _Copy(mask)
    folders = [(source, target)]
    while folders:
        folders += copy.one_folder(*folders.pop())
    return tuple(copy.left_out)


class _Copy:
    """`left_out` has each reason once."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._room = MOST_BYTES
        self.left_out: dict[str, None] = {}

    def one_folder(self, source: Path, target: Path) -> list[tuple[Path, Path]]:
        """Copies what lies in it; the folders in it are handed back."""
        below: list[tuple[Path, Path]] = []
        for entry in self._entries(source):
            place = self._place(target, entry.name)
            try:
                if entry.is_dir(follow_symlinks=False):
                    place.mkdir(mode=0o700)
                    below.append((Path(entry.path), place))
                else:
                    self._one(Path(entry.path), place, entry)
            except OSError as error:
                self.left_out[exception_text(error)] = None
        return below

    def _entries(self, folder: Path) -> list["os.DirEntry[str]"]:
        try:
            with os.scandir(folder) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self.left_out[exception_text(error)] = None
            return []

    def _place(self, folder: Path, name: str) -> Path:
        """Two names may be one when what is secret in them is gone."""
        masked = self._mask.text(name)
        others = (f"{masked}.{number}" for number in itertools.count(2))
        return next(place for each in itertools.chain([masked], others) if not os.path.lexists(place := folder / each))

    def _one(self, source: Path, place: Path, entry: "os.DirEntry[str]") -> None:
        if entry.is_symlink():
            place.symlink_to(self._mask.text(str(source.readlink())))
        elif not entry.is_file(follow_symlinks=False):
            self.left_out["a pipe, a socket or a device"] = None
        elif (about := entry.stat(follow_symlinks=False)).st_size > self._room:
            self.left_out[f"more than {MOST_BYTES:,} bytes"] = None
        else:
            self._room -= about.st_size
            self._content(source, place)
            place.chmod(stat.S_IMODE(about.st_mode) & 0o777 | 0o600)

    def _content(self, source: Path, place: Path) -> None:
        with source.open("rb") as read, place.open("xb") as written:
            for piece in masked_pieces(iter(lambda: read.read(_PIECE_BYTES), b""), self._mask):
                written.write(piece)


def masked_pieces(pieces: Iterator[bytes], mask: Mask) -> Iterator[bytes]:
    """The same bytes with the mask's values replaced, also where one lies across two pieces."""
    values = [value.encode() for value in mask.values]
    if not values:
        yield from pieces
        return
    pattern, held_back = re.compile(b"|".join(map(re.escape, values))), max(map(len, values)) - 1
    rest = b""
    for piece in pieces:
        rest += piece
        done, rest = _replaced(pattern, rest, len(rest) - held_back)
        yield done
    yield _replaced(pattern, rest, len(rest))[0]


def _replaced(pattern: re.Pattern[bytes], text: bytes, until: int) -> tuple[bytes, bytes]:
    """What begins before `until` with its values replaced, and what has to wait for more."""
    done, end = bytearray(), 0
    for match in pattern.finditer(text):
        if match.start() >= until:
            break
        done += text[end : match.start()] + MASK.encode()
        end = match.end()
    cut = max(end, until, 0)
    return bytes(done + text[end:cut]), text[cut:]
