"""Reasoning that a server left in the text, between think tags."""

import re

_OPEN_OR_CLOSE = re.compile(r"<(/?)(think|thinking|reasoning)>", re.I)


def split_thinking(text: str) -> tuple[str, str]:
    """(reasoning, answer). Text before a lone closing tag is reasoning, text after a lone opening tag too.

    Only tags at the beginning of the answer count, so that an answer may quote them.
    """
    stripped = text.lstrip()
    first = _OPEN_OR_CLOSE.search(stripped)
    if first is None or (first.group(1) == "" and first.start() > 0) or _quoted(stripped, first.start()):
        return "", text
    if first.group(1):
        return stripped[: first.start()].strip(), stripped[first.end() :].lstrip()
    close = re.compile(rf"</{first.group(2)}>", re.I).search(stripped, first.end())
    if close is None:
        return stripped[first.end() :].strip(), ""
    rest_thinking, rest = split_thinking(stripped[close.end() :].lstrip())
    own = stripped[first.end() : close.start()].strip()
    return "\n".join(part for part in (own, rest_thinking) if part), rest


def _quoted(text: str, place: int) -> bool:
    """Inside code marks, where an answer talks about the tag."""
    return text.count("`", 0, place) % 2 == 1
