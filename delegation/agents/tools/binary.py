"""Which files are not text, what they are, and what reads them instead."""

from pathlib import PurePosixPath

from delegation.agents.tools.text import decoded

_LOOK_BYTES = 8192
_ARCHIVE = "'tar -tf' or 'unzip -l' lists it"
_IMAGE = "it cannot be shown as text; 'file' tells its size"
_KINDS: dict[str, tuple[str, str]] = {
    "a PDF document": (".pdf", "use 'pdftotext FILE -' or the Python library pypdf"),
    "a ZIP archive": (".zip .jar .whl .egg .apk", "'unzip -l' lists it, 'unzip -p' shows one member"),
    "a compressed archive": (".gz .tgz .bz2 .xz .zst .7z .rar .tar", _ARCHIVE),
    "a SQLite database": (".db .sqlite .sqlite3", "use the sqlite3 command or Python's sqlite3 module"),
    "a Word document": (".docx .doc .odt", "use the Python library python-docx, or 'unzip -p FILE word/document.xml'"),
    "a spreadsheet": (".xlsx .xls .ods", "use the Python library openpyxl or pandas"),
    "a presentation": (".pptx .ppt .odp", "use the Python library python-pptx"),
    "an image": (".png .jpg .jpeg .gif .bmp .webp .ico .tiff .tif .heic .avif", _IMAGE),
    "audio or video": (".mp3 .mp4 .wav .ogg .flac .mov .avi .mkv .webm", "use ffprobe"),
    "a font": (".ttf .otf .woff .woff2", "use the Python library fonttools"),
    "compiled code": (".pyc .so .dll .dylib .exe .o .a .class .wasm", "use 'file', 'nm' or 'objdump'"),
    "a data file": (".parquet .npy .npz .pkl .pickle .h5 .hdf5 .onnx .safetensors", "use the library that wrote it"),
}
_MAGIC = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a compressed archive"),
    (b"BZh", "a compressed archive"),
    (b"\xfd7zXZ", "a compressed archive"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\x7fELF", "compiled code"),
)
_BY_SUFFIX = {suffix: kind for kind, (suffixes, _) in _KINDS.items() for suffix in suffixes.split()}


def binary_kind(path: str, data: bytes) -> str | None:
    """What the file is and what reads it, when it is not text; None for text (also UTF-16 with a byte order mark)."""
    kind = _BY_SUFFIX.get(PurePosixPath(path).suffix.lower()) or _by_magic(data)
    if kind is not None:
        return f"{kind}: {_KINDS[kind][1]}"
    start = data[:_LOOK_BYTES]
    if b"\0" in start and not decoded(data[:4]).mark:
        return "a binary file: use 'file' to see its type, 'xxd FILE | head' or 'strings' to look inside"
    return None


def _by_magic(data: bytes) -> str | None:
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
