"""Secrets in a text: where they are, and the text without them. No value ever leaves this module."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delegation.reading.packing.leak_rules import RULES, Rule
from delegation.reading.packing.manifest import Finding
from delegation.reading.packing.vendor_leaks import vendor_leaks

_EXAMPLES = re.compile(
    r"EXAMPLE|x{8}|X{8}|\*{4}|\.{3}|0{12}|eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwi"  # jwt.io's own
)
_SEEN_AS_EXAMPLE = 400  # of a whole key; one without an end goes on through all that comes after it
_JOINT = re.compile(r"""["'`](?<=[\w-].)\s*+(?:[+.&\\]\s*+)?["'`](?=[\w-])|\\(?<=[\w-].)\r?\n[ \t]*+(?=[\w-])""")
_RUN = re.compile(r"[A-Za-z0-9_.:/+=%@-]{20,}+")  # every token is such a run, and few other words are


@dataclass(frozen=True)
class Leak:
    """One secret by its place. `certain` as in the rule; `hidden` means that its parts are not side by side."""

    rule: str
    start: int
    end: int
    certain: bool
    hidden: bool = False


def leaks_in(text: str, file_name: str = "") -> tuple[Leak, ...]:
    """Every secret seen, first to last. Documented examples (`AKIAIOSFODNN7EXAMPLE`, rows of x) are none."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters grow in lower case; places would shift
        lowered = text
    runs = "\n".join(_RUN.findall(text))
    rules = [rule for rule in RULES if _concerns(rule, runs, text, lowered, file_name)]
    found = [leak for rule in rules for leak in _matches(rule, text)]
    found += [Leak(rule, start, end, certain=False) for rule, start, end in vendor_leaks(text, lowered)]
    found += _split_over_literals(text)
    return tuple(sorted(found, key=lambda leak: (leak.start, leak.end, leak.rule)))


def findings(text: str, leaks: Sequence[Leak]) -> tuple[Finding, ...]:
    """Rule and line of each, for the account; one for each rule and line."""
    seen = {(text.count("\n", 0, leak.start) + 1, leak.rule): None for leak in leaks}
    return tuple(Finding(rule=rule, line=line) for line, rule in seen)


def without(text: str, leaks: Sequence[Leak], *, end: int | None = None) -> str:
    """The text (up to `end`) with each secret replaced whole; its lines stay as many, so that line numbers hold."""
    end = len(text) if end is None else end
    parts: list[str] = []
    done = 0
    for leak in leaks:
        if leak.end <= done or leak.start >= end:
            continue
        start, stop = max(leak.start, done), min(leak.end, end)
        parts += [text[done:start], f"[removed: {leak.rule}]", "\n" * text.count("\n", start, stop)]
        done = stop
    return "".join([*parts, text[done:end]])


def _concerns(rule: Rule, runs: str, text: str, lowered: str, file_name: str) -> bool:
    if rule.only_in and not file_name.lower().endswith(rule.only_in):
        return False
    searched = runs if rule.is_token else lowered if rule.any_case else text
    if not searched:
        return False
    for sign in rule.signs:  # noqa: SIM110 - a plain loop, a hundred times for each file
        if sign in searched:
            return True
    return False


def _matches(rule: Rule, text: str) -> Iterator[Leak]:
    for found in rule.pattern.finditer(text):
        group = 1 if found.re.groups else 0
        value = found[group]
        if _EXAMPLES.search(value, 0, _SEEN_AS_EXAMPLE) is None and (rule.accepts is None or rule.accepts(value)):
            yield Leak(rule.name, found.start(group), found.end(group), rule.certain)


def _split_over_literals(text: str) -> list[Leak]:
    """Tokens written as several literals that the program joins. Only what is certain, once the seams are gone."""
    if _JOINT.search(text) is None:
        return []
    joined = _JOINT.sub("", text)
    runs = "\n".join(set(_RUN.findall(joined)).difference(_RUN.findall(text)))
    hidden: list[Leak] = []
    for rule in RULES:
        if rule.is_token and any(sign in runs for sign in rule.signs) and any(True for _ in _matches(rule, runs)):
            start = max(0, min(text.find(sign) for sign in rule.signs if sign in runs))
            hidden.append(Leak(rule.name, start, start, certain=True, hidden=True))
    return hidden
