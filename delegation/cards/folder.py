"""Reading a file or a folder of cards. What is broken is reported with file, line and key; the others go on."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.cards.checks import sound
from delegation.cards.fields import OTHER_NAMES, PASSED_OVER, CardFields
from delegation.cards.found import Broken, CardSet, FoundCard, Problem, RawCard, from_top_to_bottom, shown
from delegation.cards.json_cards import cards_in_json, cards_in_json_lines
from delegation.cards.markdown import cards_in_markdown
from delegation.cards.text import text_of_file
from delegation.cards.yaml_cards import cards_in_yaml
from delegation.errors import NotFoundError, UsageError
from delegation.wrong_values import wrong_values

_READERS: Mapping[str, Callable[[str, str], Iterator[RawCard | Broken]]] = {
    ".md": cards_in_markdown,
    ".markdown": cards_in_markdown,
    ".yaml": cards_in_yaml,
    ".yml": cards_in_yaml,
    ".json": cards_in_json,
    ".jsonl": cards_in_json_lines,
}
MOST_CARDS = 10_000


def read_cards(source: Path, no_repository: Path) -> CardSet:
    """All cards of a file, or of a folder and the folders in it, by path.

    `no_repository` is where a question is answered that is about no folder. Raises NotFoundError when there is no such
    path, UsageError for a file of another kind, and a folder without anything that looks like a card.
    """
    source = source.expanduser().absolute()
    if not os.path.lexists(source):
        raise NotFoundError(f"there is no folder or file {shown(source)!r}")
    problems: list[Problem] = []
    files, passed_over = _files(source, problems)
    if not files and not problems:
        raise UsageError(f"{shown(source)!r} holds no card: they are called *.md, *.yaml, *.json or *.jsonl")
    cards: list[FoundCard] = []
    for file in files:
        for found in _cards_of(file, source, no_repository):
            if isinstance(found, FoundCard):
                cards.append(found)
            else:
                problems.append(found)
    if len(cards) > MOST_CARDS:
        raise UsageError(f"{shown(source)!r} holds {len(cards)} cards: at most {MOST_CARDS} are read at once")
    whole, more = sound(cards, {problem.card for problem in problems if problem.card})
    told = from_top_to_bottom((*problems, *more))
    return CardSet(source=shown(source), cards=whole, problems=told, passed_over=tuple(passed_over))


def _files(source: Path, problems: list[Problem]) -> tuple[list[Path], list[str]]:
    """The card files, and the others with the reason why they are none. `problems` gets folders that cannot be read."""
    if not source.is_dir():
        if source.suffix.lower() not in _READERS:
            said = f"they are called *.md, *.yaml, *.json or *.jsonl{_elsewhere(source)}"
            raise UsageError(f"{shown(source)!r} is no card file: {said}")
        return [source], []
    files: list[Path] = []
    passed_over: list[str] = []

    def unreadable(error: OSError) -> None:
        said = f"this folder cannot be read, so none of its cards is done: {error.strerror or error}"
        problems.append(Problem(file=shown(Path(str(error.filename))), line=None, key=None, message=said))

    for folder, folders, names in os.walk(source, onerror=unreadable):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_link_or_hidden(here / name, source, passed_over))
        for name in sorted(names):
            reason = _no_card(name)
            if reason:
                passed_over.append(f"{shown((here / name).relative_to(source))}: {reason}")
            else:
                files.append(here / name)
    return files, passed_over


def _is_link_or_hidden(folder: Path, source: Path, passed_over: list[str]) -> bool:
    is_link = os.path.islink(folder)  # noqa: PTH114  # Path's own raises where the path is too long
    reason = "a hidden folder" if folder.name.startswith(".") else "a link to a folder" if is_link else None
    if reason:
        passed_over.append(f"{shown(folder.relative_to(source))}: {reason}")
    return reason is not None


def _no_card(name: str) -> str | None:
    path = Path(name)
    if name.startswith("."):
        return "a hidden file"
    if path.suffix.lower() not in _READERS:
        return f"not *.md, *.yaml, *.json or *.jsonl{_elsewhere(path)}"
    return "a page about the folder" if path.stem.lower() == "readme" else None


def _elsewhere(path: Path) -> str:
    return "; run it with `delegate run --card FILE`" if path.suffix.lower() == ".toml" else ""


def _cards_of(file: Path, source: Path, no_repository: Path) -> Iterator[FoundCard | Problem]:
    name = shown(file)
    relative = file.relative_to(source) if file != source else Path(file.name)
    stem = shown(relative.with_suffix(""))
    try:
        for found in _READERS[file.suffix.lower()](text_of_file(file), stem):
            if isinstance(found, Broken):
                yield found.problem(name)
            else:
                yield from _checked(found, file, no_repository)
    except Broken as broken:
        yield broken.problem(name, stem)


def _checked(raw: RawCard, file: Path, no_repository: Path) -> Iterator[FoundCard | Problem]:
    name, given = shown(file), raw.fields.get("id", raw.fields.get("name", raw.default_id))
    card_id = given if isinstance(given, str) else raw.default_id
    told: dict[str, str] = {}
    try:
        fields = _named(raw, told)
        fields.setdefault("id", raw.default_id)
        _put_repository(fields, raw, file, no_repository)
        yield FoundCard(fields=CardFields.model_validate(fields), file=name, line=raw.line, lines=raw.lines)
    except Broken as broken:
        yield broken.problem(name, card_id)
    except ValidationError as error:
        for wrong in wrong_values(error, CardFields):
            key = told.get(str(wrong.place[0]), str(wrong.place[0])) if wrong.place else None
            said = wrong.named(told) if wrong.place else wrong.reason
            yield Problem(file=name, line=raw.lines.get(key or "", raw.line), key=key, message=said, card=card_id)


def _named(raw: RawCard, told: dict[str, str]) -> dict[str, Any]:
    """The fields under our names; `told` gets what the card calls those that it calls otherwise."""
    fields: dict[str, Any] = {}
    for key, value in raw.fields.items():
        field = OTHER_NAMES.get(key, key)
        if field in fields:
            raise Broken(f"{told.get(field, field)} and {key} mean the same: give one", raw.lines.get(key), key)
        if key in PASSED_OVER or value is None:  # an empty value is the same as none, as in `model:`
            continue
        fields[field] = value
        if key != field:
            told[field] = key
    return fields


def _put_repository(fields: dict[str, Any], raw: RawCard, file: Path, no_repository: Path) -> None:
    """A path is relative to the file. A question may be about no folder at all; a change is always made somewhere."""
    repo = fields.get("repo")
    if isinstance(repo, str) and repo.strip():
        fields["repo"] = _absolute(repo, file, raw)
    elif repo is None:
        if fields.get("expects") != "answer" and not (raw.is_job and "expects" not in fields):
            raise Broken("repo is missing: name the folder, or say `expects: answer` for a question", raw.line, "repo")
        fields.update(repo=str(no_repository), expects="answer")
        fields.setdefault("max_turns", 1)


def _absolute(repo: str, file: Path, raw: RawCard) -> str:
    try:
        return str(file.parent / Path(repo).expanduser())
    except RuntimeError:  # ~somebody
        raise Broken(f"repo {repo!r} names a user who is not known here", raw.lines.get("repo"), "repo") from None
