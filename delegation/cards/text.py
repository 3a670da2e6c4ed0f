"""The text of a card file: whatever an editor or a shell on any system saved, or a reason why it cannot be read."""

import codecs
import stat
from pathlib import Path

from delegation.cards.found import Broken

MOST_BYTES = 16 * 1024 * 1024
_MARKS = ((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"))
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def text_of_file(path: Path) -> str:
    """The text with plain line ends. Raises Broken that names the encoding, the line, or what kind of file it is."""
    return decoded(_content(path)).replace("\r\n", "\n").replace("\r", "\n")


def _content(path: Path) -> bytes:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a named pipe would wait for a writer for ever
            raise Broken("is not a regular file")
        if found.st_size > MOST_BYTES:
            raise Broken(f"is longer than {MOST_BYTES // 1024**2} MiB, which is the limit")
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES)
    except FileNotFoundError:
        raise Broken("is a link to nothing" if path.is_symlink() else "is gone") from None
    except OSError as error:
        raise Broken(f"cannot be read: {error.strerror or error}") from error


def decoded(content: bytes) -> str:
    """UTF-8 with or without a mark, or UTF-16 with one. Raises Broken for anything else."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            raise Broken(f"is {name} text: save it as UTF-8")
    if content.startswith(_UTF16):
        return _as(content, "utf-16")
    text = _as(content, "utf-8-sig")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Broken("holds NUL characters (UTF-16 without its mark?): save it as UTF-8", line)
    return text


def _as(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        name = encoding.removesuffix("-sig").upper()
        raise Broken(f"is not {name} text ({error.reason} at byte {error.start}): save it as UTF-8", line) from None
