"""Text out of bytes and back: encodings that survive the round trip, and cuts that keep both ends."""

import codecs
from dataclasses import dataclass

from charset_normalizer import from_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Decoded:
    """A file's text, and what is needed to write it back byte for byte."""

    text: str
    encoding: str
    mark: bytes = b""

    def encoded(self, text: str) -> bytes:
        """The bytes of another text in the same encoding. Raises UnicodeEncodeError where it has no such character."""
        return self.mark + text.encode(self.encoding)


def decoded(data: bytes) -> Decoded:
    """The text of the bytes: by byte order mark, else UTF-8, else the likeliest encoding that gives the bytes back."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return Decoded(data[len(mark) :].decode(encoding, "replace"), encoding, mark)
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _guessed(data)


def _guessed(data: bytes) -> Decoded:
    best = from_bytes(data[:200_000]).best()
    for encoding in (best.encoding if best else "latin-1", "latin-1"):
        try:
            text = data.decode(encoding)
            if text.encode(encoding) == data:
                return Decoded(text, encoding)
        except (UnicodeError, LookupError):
            continue
    return Decoded(data.decode("latin-1"), "latin-1")


def safe(text: str) -> str:
    """The text without lone surrogates and NUL: what every endpoint takes as JSON."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\\0")


def head_and_tail(text: str, limit: int, note: str) -> str:
    """At most `limit` characters of the text, and in the middle how many are left out, with the note."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out:,} characters left out. {note} ...]\n{text[-half:]}"
