"""Does an answer refer to what was really packed? Each `path:start-end` is looked up, and wrong ones are marked."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from delegation.reading.packing.manifest import Manifest, PackedFile

Verdict = Literal["ok", "no_such_file", "no_such_lines"]

_LINES = re.compile(r"(?::L?|#L)(\d{1,9})(?:(?:-|–|—|\.\.)L?(\d{1,9}))?(?![\w])")
_WORD = re.compile(r"[^\s\"'`()\[\]{}<>,;|*]+")
_EXTENSION = re.compile(r"\.(\w{1,10})\Z")
_NAME_END = re.compile(r"[\w.\-/\"]")


@dataclass(frozen=True)
class Citation:
    """One reference. `path` is the file that is meant (as written where there is none), `at` where it stands."""

    path: str
    start: int
    end: int
    verdict: Verdict
    at: tuple[int, int]
    problem: str = ""


@dataclass(frozen=True)
class Checked:
    """The answer with a mark behind each wrong reference, and all references in their order."""

    text: str
    citations: tuple[Citation, ...]

    @property
    def wrong(self) -> tuple[Citation, ...]:
        return tuple(citation for citation in self.citations if citation.verdict != "ok")


def checked(answer: str, manifest: Manifest) -> Checked:
    """Look up every reference. A path may be shortened from the left where one file alone ends that way."""
    known = _Known(manifest)
    citations = tuple(citation for found in _LINES.finditer(answer) if (citation := _citation(answer, found, known)))
    parts: list[str] = []
    done = 0
    for citation in citations:
        parts.append(answer[done : citation.at[1]])
        done = citation.at[1]
        if citation.problem:
            parts.append(f" [wrong reference: {citation.problem}]")
    return Checked("".join([*parts, answer[done:]]), citations)


class _Known:
    """The packed paths, also by their endings."""

    def __init__(self, manifest: Manifest) -> None:
        self.files = manifest.by_path
        self.left_out = {skip.path: skip.reason for skip in manifest.skipped}
        self.extensions = {match[1] for path in self.files if (match := _EXTENSION.search(path.rstrip('"')))}
        self.longest = max(map(len, self.files), default=0)
        self.odd = [path for path in self.files if _WORD.fullmatch(path) is None]
        self._endings: dict[str, list[str]] = {}
        for path in self.files:
            self._endings.setdefault(path.rpartition("/")[2], []).append(path)

    def file(self, written: str) -> PackedFile | None:
        name = written.removeprefix("./").removeprefix("/")
        if name in self.files:
            return self.files[name]
        same_name = self._endings.get(name.rpartition("/")[2], [])
        fitting = [path for path in same_name if path.endswith(f"/{name}")]
        return self.files[fitting[0]] if len(fitting) == 1 else None


def _citation(answer: str, found: re.Match[str], known: _Known) -> Citation | None:
    written = _written_path(answer, found.start(), known)
    if written is None:
        return None
    start, end = int(found[1]), int(found[2] or found[1])
    at = (found.start() - len(written), found.end())
    file = known.file(written)
    if file is None:
        reason = known.left_out.get(written.removeprefix("./"))
        if reason is None and not _looks_like_a_path(written, ranged=found[2] is not None, known=known):
            return None
        problem = f"this file was left out ({reason})" if reason else "no such file was read"
        return Citation(written, start, end, "no_such_file", at, problem)
    if not 1 <= start <= end or end > file.lines:
        return Citation(file.path, start, end, "no_such_lines", at, f"the file has {file.lines} lines")
    return Citation(file.path, start, end, "ok", at)


def _written_path(answer: str, end: int, known: _Known) -> str | None:
    """What stands before the line numbers: a packed path with odd characters, or the longest word."""
    before = answer[max(0, end - known.longest - 1) : end]
    for path in known.odd:
        if before.endswith(path):
            return path
    word = next(_words_before(answer, end), None)
    if word is None or word.endswith(":") or "://" in word:
        return None
    return word if _NAME_END.match(word[-1]) else None


def _words_before(answer: str, end: int) -> Iterator[str]:
    begin = max(answer.rfind("\n", 0, end) + 1, end - 600)
    if answer[end - 1 : end] == '"':
        opening = answer.rfind('"', begin, end - 1)
        if opening >= 0:
            yield answer[opening:end]
        return
    place = end
    while place > begin and _WORD.match(answer[place - 1]):
        place -= 1
    if place < end:
        yield answer[place:end]


def _looks_like_a_path(written: str, *, ranged: bool, known: _Known) -> bool:
    """`example.org:443` and `12:30` are none; `src/gone.py:3` and `gone.py:3-9` are, though nobody packed them."""
    extension = _EXTENSION.search(written.rstrip('"'))
    if extension is None:
        return "/" in written and ranged
    if not re.search(r"[A-Za-z]", extension[1]):
        return False
    return "/" in written or ranged or extension[1] in known.extensions
