"""A card as Markdown: front matter between two lines of `---`, and the task below it."""

import re
from collections.abc import Iterator
from dataclasses import replace

from delegation.cards.found import Broken, RawCard
from delegation.cards.yaml_cards import mapping_of, node_of

_FENCE = re.compile(r"---[ \t]*")


def cards_in_markdown(text: str, stem: str) -> Iterator[RawCard | Broken]:
    """The one card. Raises Broken where front matter is missing or not closed: nothing runs with silent defaults."""
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise _no_front_matter(lines)
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise Broken("the front matter that begins in line 1 is not closed by a line of '---'", len(lines))
    node = node_of("\n".join(lines[1:end]), line_before=1)
    card = RawCard({}, 1, {}, stem) if node is None else mapping_of(node, default_id=stem, line_before=1)
    yield _with_body(card, "\n".join(lines[end + 1 :]).strip(), end + 2)


def _with_body(card: RawCard, body: str, line: int) -> RawCard:
    if not body:
        return card
    given = next((name for name in ("task", "prompt") if name in card.fields), None)
    if given is not None:
        raise Broken(
            f"{given} stands in the front matter, and there is a text below it: give one", card.lines[given], given
        )
    return replace(card, fields={**card.fields, "task": body}, lines={**card.lines, "task": line})


def _no_front_matter(lines: list[str]) -> Broken:
    later = next((number for number, line in enumerate(lines, 1) if _FENCE.fullmatch(line)), None)
    said = "has no front matter: a card begins with a line of '---'"
    if later is None:
        return Broken(said, 1)
    remedy = f"put a line of '---' above line 1, or take away what stands before line {later}"
    return Broken(f"{said} in line 1, and the first one is in line {later}: {remedy}", later)
