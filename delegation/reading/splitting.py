"""A pack that is larger than the reader takes: parts by folder and file that fit, or a refusal with the numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from delegation.errors import WorkFailed
from delegation.reading.packing.manifest import Pack
from delegation.reading.packing.naming import unshown
from delegation.reading.packing.rendering import Piece, block_tokens, estimated_tokens, preamble_tokens
from delegation.reading.question import WhenTooLarge

_MAX_PARTS = 24


@dataclass(frozen=True)
class Part:
    """What is sent in one request. `tokens` are the estimate of the whole request, `label` says what is in it."""

    pieces: tuple[Piece, ...]
    tokens: int
    label: str


@dataclass(frozen=True)
class Plan:
    """How a pack is read."""

    parts: tuple[Part, ...]
    tokens: int
    max_input_tokens: int | None

    @property
    def split(self) -> bool:
        return len(self.parts) > 1

    def __str__(self) -> str:
        if self.max_input_tokens is None:
            return f"about {self.tokens:,} tokens in one request; the provider states no limit"
        requests = "one request" if not self.split else f"{len(self.parts)} requests"
        return f"about {self.tokens:,} tokens in {requests}, the provider takes {self.max_input_tokens:,} at once"

    def heading(self, number: int) -> str:
        """What the reader of one part (counted from 0) is told about it; nothing when there is one part."""
        if not self.split:
            return ""
        return f"This is part {number + 1} of {len(self.parts)} of the folder: {self.parts[number].label}.\n"


def plan_for(
    pack: Pack,
    *,
    max_input_tokens: int | None,
    reserved_tokens: int = 0,
    when_too_large: WhenTooLarge = "split",
    max_parts: int = _MAX_PARTS,
) -> Plan:
    """How to read the pack under a provider's limit; `reserved_tokens` are for the question and what surrounds it.

    Deterministic. Raises WorkFailed('context_overflow') with the numbers when it may not or cannot be split.
    """
    fixed = preamble_tokens(pack.manifest) + reserved_tokens
    needed = pack.manifest.tokens + fixed
    everything = tuple(Piece(place) for place in range(len(pack.texts)))
    if max_input_tokens is None or needed <= max_input_tokens:
        return Plan((Part(everything, needed, _label(pack, everything)),), needed, max_input_tokens)
    numbers = f"{len(pack.texts)} files are about {needed:,} tokens and the provider takes {max_input_tokens:,} at once"
    if when_too_large == "refuse":
        raise WorkFailed("context_overflow", f"{numbers}: name a smaller folder, exclude files, or allow splitting")
    room = max_input_tokens - fixed
    if room <= 0:
        raise WorkFailed("context_overflow", f"{numbers}, of which {fixed:,} go to the question and the list of skips")
    bins = _filled(_units(pack, room, numbers), room)
    if len(bins) > max_parts:
        raise WorkFailed(
            "context_overflow", f"{numbers}: {len(bins)} requests would be needed, {max_parts} are allowed"
        )
    parts = tuple(Part(pieces, tokens + fixed, _label(pack, pieces)) for pieces, tokens in bins)
    return Plan(parts, needed, max_input_tokens)


@dataclass(frozen=True)
class _Unit:
    """What stays together: a folder, a file, or a run of lines."""

    pieces: tuple[Piece, ...]
    tokens: int


def _filled(units: Iterator[_Unit], room: int) -> list[tuple[tuple[Piece, ...], int]]:
    """Units in their order, as many to a part as fit."""
    bins: list[tuple[tuple[Piece, ...], int]] = []
    for unit in units:
        if bins and bins[-1][1] + unit.tokens <= room:
            bins[-1] = (bins[-1][0] + unit.pieces, bins[-1][1] + unit.tokens)
        else:
            bins.append((unit.pieces, unit.tokens))
    return bins


def _units(pack: Pack, room: int, numbers: str) -> Iterator[_Unit]:
    """The largest folders that fit, in the pack's order. A stack and no recursion: paths can be deep."""
    paths = [unshown(file.path).split(b"/") for file in pack.manifest.files]
    waiting: list[tuple[list[int], int]] = [(list(range(len(paths))), 0)]
    while waiting:
        places, depth = waiting.pop()
        tokens = sum(pack.manifest.files[place].tokens for place in places)
        if tokens <= room:
            yield _Unit(tuple(Piece(place) for place in places), tokens)
        elif len(places) == 1:
            yield from _runs_of_lines(pack, places[0], room, numbers)
        else:
            groups = [list(group) for _, group in groupby(places, key=lambda place: paths[place][: depth + 1])]
            waiting += [(group, depth + 1) for group in reversed(groups)]


def _runs_of_lines(pack: Pack, place: int, room: int, numbers: str) -> Iterator[_Unit]:
    file, lines = pack.manifest.files[place], pack.texts[place].split("\n")[: pack.manifest.files[place].lines]
    head = block_tokens(file.path, "") + 1
    digits = len(str(len(lines))) + 1
    first, used = 1, head
    for number, line in enumerate(lines, 1):
        cost = estimated_tokens(len(line.encode("utf-8", "surrogateescape")) + 1 + digits)
        if head + cost > room:
            raise WorkFailed("context_overflow", f"{numbers}; line {number} of {file.path} alone is about {cost:,}")
        if used + cost > room:
            yield _Unit((Piece(place, first, number - 1),), used)
            first, used = number, head
        used += cost
    yield _Unit((Piece(place, first, len(lines)),), used)


def _label(pack: Pack, pieces: Sequence[Piece]) -> str:
    if not pieces:
        return "no files"
    if len(pieces) == 1:
        piece, file = pieces[0], pack.manifest.files[pieces[0].place]
        whole = piece.first == 1 and piece.last in (None, file.lines)
        return file.path if whole else f"{file.path} lines {piece.first}-{piece.last or file.lines}"
    first, last = (pack.manifest.files[piece.place].path for piece in (pieces[0], pieces[-1]))
    return f"{len(pieces)} files from {first} to {last}"
