"""Bytes of a file as text: Unicode by its marks, legacy encodings by their letters, and what is no text at all."""

import codecs
import re
from dataclasses import dataclass

_SAMPLE = 4096
_CONTROLS = bytes(range(7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"  # not \a \b \t \n \v \f \r, ESC
_CONTROL_SHARE = 0.05
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_LEGACY = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "cp932", "euc_jp", "gb18030",
    "big5", "cp949",
)  # fmt: skip
_HIGH_BYTES = bytes(range(0x80, 0x100))
_HIGH_LINE = re.compile(rb"[^\n]*[\x80-\xff][^\n]*\n?")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_ENOUGH_TO_TELL = 8


@dataclass(frozen=True)
class Decoded:
    """The text without its byte order mark, and how it was read. A byte that fits nothing is shown as `\\xff`."""

    text: str
    encoding: str


def decoded(raw: bytes, *, cut: bool = False) -> Decoded | None:
    """The text, or None for a binary file. `cut` tells that the bytes may end inside a character, which is dropped."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _unicode(raw[len(mark) :], encoding, cut)
    if b"\0" in raw or _is_binary(raw[:_SAMPLE]):
        return None
    try:
        return Decoded(_strict(raw, "utf-8", cut), "utf-8")
    except UnicodeDecodeError:
        return _legacy(raw, cut)


def looks_like_utf16(raw: bytes) -> bool:
    """Whether a binary file is probably UTF-16 that lacks its mark: worth telling, not worth guessing."""
    pairs = raw[: len(raw[:_SAMPLE]) // 2 * 2]
    zeros = pairs[0::2].count(0), pairs[1::2].count(0)
    return max(zeros) * 2 >= len(pairs) * 0.7 and min(zeros) == 0 and len(pairs) > 0


def _is_binary(sample: bytes) -> bool:
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return controls > len(sample) * _CONTROL_SHARE


def _unicode(raw: bytes, encoding: str, cut: bool) -> Decoded | None:
    decoder = codecs.getincrementaldecoder(encoding.removesuffix("-sig"))("replace")
    text = decoder.decode(raw, final=not cut)
    return None if "\0" in text else Decoded(text, encoding)


def _strict(raw: bytes, encoding: str, cut: bool) -> str:
    if not cut:
        return raw.decode(encoding)
    return codecs.getincrementaldecoder(encoding)("strict").decode(raw, final=False)


def _legacy(raw: bytes, cut: bool) -> Decoded:
    high = len(raw) - len(raw.translate(None, _HIGH_BYTES))
    if sum(len(found) for found in _MULTIBYTE.findall(raw)) * 2 > high:
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        return Decoded(decoder.decode(raw, final=not cut), "utf-8 with invalid bytes")
    for encoding in (_likely(raw) if high >= _ENOUGH_TO_TELL else "cp1252", "cp1252"):
        try:
            return Decoded(_strict(raw, encoding, cut), encoding)
        except UnicodeDecodeError:
            continue
    return Decoded(raw.decode("latin-1"), "latin-1")


def _likely(raw: bytes) -> str:
    """What the lines with letters beyond ASCII are written in. With fewer letters than a word every guess is luck."""
    from charset_normalizer import from_bytes  # slow to import, rarely needed

    lines: list[bytes] = []
    for found in _HIGH_LINE.finditer(raw):
        lines.append(found[0])
        if sum(map(len, lines)) > _SAMPLE:
            break
    best = from_bytes(b"".join(lines)[: 4 * _SAMPLE], cp_isolation=list(_LEGACY)).best()
    return best.encoding if best is not None else "cp1252"
