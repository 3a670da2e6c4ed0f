"""File names as one line of plain text: lossless, one spelling for each name, and nothing that acts on a screen."""

import re
import unicodedata

_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", '"': r"\""}
_UNESCAPES = {text[1]: char for char, text in _ESCAPES.items()}
_WRITTEN = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([ntr\\\"]))")
_INVALID = range(0xDC80, 0xDD00)  # how `surrogateescape` carries a byte that is no UTF-8


def shown(path: bytes) -> str:
    r"""The name itself where it is plain; else in double quotes with escapes: `\n`, `\xff` (a byte), `\u202e`."""
    text = path.decode("utf-8", "surrogateescape")
    if _is_plain(text):
        return text
    composed = unicodedata.is_normalized("NFC", text)
    return '"' + "".join(_escaped(char, composed) for char in text) + '"'


def unshown(text: str) -> bytes:
    """The name that `shown` wrote."""
    if not (len(text) > 1 and text[0] == text[-1] == '"'):
        return text.encode("utf-8", "surrogateescape")
    return _WRITTEN.sub(_unescaped, text[1:-1]).encode("utf-8", "surrogateescape")


def _is_plain(text: str) -> bool:
    if text.isascii():
        odd = not text.isprintable()
    else:
        odd = not text.isprintable() or not unicodedata.is_normalized("NFC", text)
    return not (odd or '"' in text or "\\" in text or "--- " in text or " ---" in text or text != text.strip(" "))


def _escaped(char: str, composed: bool) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code in _INVALID:
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable() and (composed or char.isascii()):
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unescaped(match: re.Match[str]) -> str:
    byte, short, long, char = match.groups()
    if byte:
        return chr(0xDC00 + int(byte, 16))
    return _UNESCAPES[char] if char else chr(int(short or long, 16))
