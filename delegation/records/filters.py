"""Which delegations are meant: by repository, model, outcome, time, agent, lane, tag, origin and text.

A record that is damaged is never hidden by what nobody can read of it: it fits unless what is known says otherwise.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from delegation.card import Lane
from delegation.errors import UsageError
from delegation.receipt import Outcome
from delegation.records.history import UNREADABLE, HistoryRow, Read, Texts, moment_or_none
from delegation.records.index import History
from delegation.values import Value

UNFINISHED = "unfinished"
OUTCOMES: tuple[str, ...] = (*get_args(Outcome), UNFINISHED, UNREADABLE)
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DAY = timedelta(days=1)


class Filter(Value):
    """What is looked for; all that is given must hold. An empty one fits everything.

    `repos` are folders' paths (the repository, or one inside it) and repositories' names: one of them. `model` and
    `agent` may have `*` and `?`. `outcomes` are outcomes, `unfinished` and `unreadable`. `text` stands anywhere in
    task, answer or claim.
    """

    repos: tuple[str, ...] = ()
    model: str | None = None
    outcomes: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    agent: str | None = None
    lane: Lane | None = None
    tag: str | None = None
    parent_id: str | None = None
    night: str | None = None
    text: str | None = None


def filter_of(
    *,
    repo: str | None = None,
    model: str | None = None,
    outcome: str | Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    agent: str | None = None,
    lane: str | None = None,
    tag: str | None = None,
    parent_id: str | None = None,
    night: str | None = None,
    text: str | None = None,
    cwd: Path,
    now: datetime | None = None,
) -> Filter:
    """The filter that a person's words mean. Raises UsageError naming the word that means nothing."""
    now = now or datetime.now(UTC)
    words = [outcome] if isinstance(outcome, str) else list(outcome or ())
    made = Filter(
        repos=_places(repo, cwd) if repo else (),
        model=model or None,
        outcomes=tuple(_outcome(word) for given in words for word in re.split(r"[\s,]+", given.strip()) if word),
        since=moment(since, now, "--since") if since else None,
        until=moment(until, now, "--until", is_end=True) if until else None,
        agent=agent or None,
        lane=_lane(lane) if lane else None,
        tag=tag or None,
        parent_id=parent_id,
        night=night or None,
        text=text or None,
    )
    if made.since and made.until and made.since >= made.until:
        raise UsageError(f"--since {since} is not before --until {until}: nothing can be between them")
    return made


def moment(text: str, now: datetime, option: str, *, is_end: bool = False) -> datetime:
    """`2h` or `3d` is so long ago, `2026-11-30` the beginning of that day on this machine's clock (as an end: all of
    it), `2026-11-30T14:00` that minute there unless it names its zone; `today` and `yesterday` are days.

    Raises UsageError for anything else.
    """
    word = text.strip()
    if match := _AGO.fullmatch(word):
        try:
            return now - timedelta(seconds=float(match[1]) * _UNITS[match[2].lower()])
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    days = {"today": 0, "yesterday": 1}
    try:
        if word.lower() in days:
            given, whole_day = now.astimezone().replace(tzinfo=None) - days[word.lower()] * _DAY, True
            given = given.replace(hour=0, minute=0, second=0, microsecond=0)
        else:
            given, whole_day = datetime.fromisoformat(word), len(word) <= len("2026-11-30")
        return (given + _DAY if is_end and whole_day else given).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text!r} is no time: give how long ago (90min, 2h, 3d, 1w) or a date (2026-11-30, "
            "2026-11-30T14:00)"
        ) from None


def found(history: History, wanted: Filter, ids: Iterable[str]) -> Iterator[HistoryRow]:
    """The rows that fit, in the order of the ids."""
    return (each.row for each in found_reads(history, wanted, ids, with_texts=False))


def found_reads(history: History, wanted: Filter, ids: Iterable[str], *, with_texts: bool) -> Iterator[Read]:
    """The same with their texts."""
    in_time = [name for name in ids if _in_time(wanted, name)]
    reads = history.reads(in_time, with_texts=with_texts or wanted.text is not None)
    return (each for each in reads if fits(wanted, each.row, each.texts))


def fits(wanted: Filter, row: HistoryRow, texts: Texts) -> bool:
    """Whether a row is one of those that are looked for."""
    damaged = row.problem is not None
    checks: list[tuple[object, object]] = [
        (wanted.repos or None, row.repo and any(_is_in(row.repo, place) for place in wanted.repos)),
        (wanted.model, _is_like((row.model, row.model_used, row.answered_by), wanted.model)),
        (wanted.agent, _is_like((row.agent,), wanted.agent)),
        (wanted.lane, row.lane and row.lane == wanted.lane),
        (wanted.parent_id, row.parent_id == wanted.parent_id if row.title else None),
        (wanted.night, _night(row, wanted.night) if row.title else None),
        (wanted.tag, wanted.tag in row.tags if row.tags else None),
        (wanted.text, _has_text(texts, wanted.text)),
    ]
    if wanted.outcomes and not damaged and not _is_of(row, wanted.outcomes):
        return False
    return all(told or (told is None and damaged) for asked, told in checks if asked is not None)


def _in_time(wanted: Filter, name: str) -> bool:
    if wanted.since is None and wanted.until is None:
        return True
    submitted = moment_or_none(name)
    if submitted is None:  # nothing says when, so it is not hidden
        return True
    return (wanted.since is None or submitted >= wanted.since) and (wanted.until is None or submitted < wanted.until)


def _is_of(row: HistoryRow, outcomes: Sequence[str]) -> bool:
    return (row.outcome or UNFINISHED) in outcomes


def _is_in(repo: str, place: str) -> bool:
    """A name without a separator is a repository's; a path is the repository's or one inside it."""
    if not Path(place).is_absolute():
        return Path(repo).name == place
    return Path(place) == Path(repo) or Path(repo) in Path(place).parents


def _is_like(names: Sequence[str | None], pattern: str | None) -> bool | None:
    known = [name for name in names if name is not None]
    if pattern is None or not known:
        return None
    return any(name == pattern or fnmatch.fnmatchcase(name, pattern) for name in known)


def _night(row: HistoryRow, night: str | None) -> bool:
    return row.night_id is not None and row.night_id in (night, f"night-{night}")


def _has_text(texts: Texts, text: str | None) -> bool | None:
    known = [told for told in (texts.task, texts.answer, texts.claim) if told is not None]
    if text is None or not known:
        return None
    return any(text.casefold() in told.casefold() for told in known)


def _places(text: str, cwd: Path) -> tuple[str, ...]:
    """A bare name is a repository's, and also a folder's where there is one of that name here."""
    try:
        path = (cwd / Path(text).expanduser()).resolve()
        is_there = path.exists()
    except (RuntimeError, ValueError, OSError) as error:  # another user's folder, a NUL, a circle of links
        raise UsageError(f"--repo {text!r} is no path ({error}): give a repository's path or name") from error
    if Path(text).name != text or text == "..":
        return (str(path),)
    return (text, str(path)) if is_there else (text,)


def _outcome(word: str) -> str:
    name = word.lower().replace("-", "_")
    if name not in OUTCOMES:
        raise UsageError(f"there is no outcome {word!r}: it is one of {', '.join(OUTCOMES)}")
    return name


def _lane(word: str) -> Lane:
    for lane in get_args(Lane):
        if word == lane:
            return lane
    raise UsageError(f"there is no lane {word!r}: it is one of {', '.join(get_args(Lane))}")
