"""Pieces of Markdown that a foreign text cannot break out of: nothing in it is a link, an image, a heading or HTML.

An image in a model's words would be fetched by the browser of whoever reads the receipt.
"""

import re
import textwrap

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#|~!&$])")
_LIST = re.compile(r"^(\d+)([.)])|^([-+=])")
_ADDRESS = re.compile(r"(https?|ftp|www)([:.])", re.IGNORECASE)
_COLUMNS = 100


def plain(text: str) -> str:
    """One line of text that means nothing but itself."""
    escaped = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    escaped = _ADDRESS.sub(r"\1\\\2", escaped)  # an address in running text would become a link
    return _LIST.sub(r"\1\\\2\3" if escaped[:1].isdigit() else r"\\\3", escaped)


def quoted(text: str) -> list[str]:
    """A block quote, line by line; unlike a code block it wraps."""
    lines = [plain(line) for line in text.strip().splitlines()]
    return [f"> {line}  " if line else ">" for line in lines]


def code(text: str) -> str:
    """Inline code, on one line."""
    line = " ".join(text.split()) or " "
    fence = "`" * (_longest_run_of_backticks(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def fenced(text: str, language: str = "", *, wrap: bool = False) -> list[str]:
    """A code block that its text cannot close. With `wrap`, long lines are broken."""
    fence = "`" * max(3, _longest_run_of_backticks(text) + 1)
    lines = text.rstrip().splitlines()
    return [f"{fence}{language}", *(_wrapped(lines) if wrap else lines), fence]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Cells are Markdown already; a bar in one of them stays a bar."""
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]


def bounded(text: str, most: int) -> str:
    """The text, or its beginning and a sign that it goes on."""
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " "))


def _wrapped(lines: list[str]) -> list[str]:
    wrapper = textwrap.TextWrapper(
        _COLUMNS, break_long_words=False, break_on_hyphens=False, replace_whitespace=False, drop_whitespace=False
    )
    return [part.rstrip() for line in lines for part in (wrapper.wrap(line) or [""])]


def _longest_run_of_backticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
