"""From what a caller said to a question with everything resolved, or a refusal before anything is sent."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.card import Lane
from delegation.chat.history import clean
from delegation.checkout.git import top_level
from delegation.errors import DelegateError, NotFoundError, UsageError
from delegation.ids import new_id
from delegation.reading import pool as pools
from delegation.reading.config import ReaderConfig
from delegation.reading.lane import lane_of_folder, refuse_our_state, those_allowed
from delegation.reading.metrics import Metrics, Tool, append_metrics
from delegation.reading.packing.limits import FileWalker
from delegation.reading.pool import Pool
from delegation.reading.providers import drawn_order
from delegation.reading.question import Question, WhenTooLarge
from delegation.reading.sessions import SessionStore
from delegation.reading.typed import checked_schema
from delegation.reading.wording import output_tokens
from delegation.settings import Settings


@dataclass(frozen=True)
class Wish:
    """What a caller may say beside the prompt."""

    max_output_tokens: int | None = None
    json_schema: Mapping[str, Any] | None = None
    when_too_large: WhenTooLarge = "split"
    model: str | None = None


@dataclass(frozen=True)
class Admitted:
    """The question, and the keys of its readers by name, which never travel with it."""

    question: Question
    keys: Mapping[str, str] = field(repr=False)


def admit_analyze(
    settings: Settings, source: Path, prompt: str, wish: Wish, *, chance: Callable[[], float] = random.random
) -> Admitted:
    """A question about a folder or file. Raises UsageError, and WorkFailed('privacy') for a folder marked local that
    nobody here may read."""
    config = pools.config_of(settings)
    if not source.exists():
        raise NotFoundError(f"there is no folder or file {str(source)!r}")
    refuse_our_state(source, places_of_ours(settings, config))
    lane = lane_of_folder(source, settings)
    pool = pools.pool_of(settings, config, wish.model, lane)
    return _admitted(settings, config, pool, "analyze", prompt, wish, chance, source=str(source), lane=lane)


def admit_query(
    settings: Settings, prompt: str, wish: Wish, *, chance: Callable[[], float] = random.random
) -> Admitted:
    """A question without files. Raises UsageError."""
    config = pools.config_of(settings)
    return _admitted(settings, config, pools.pool_of(settings, config, wish.model), "query", prompt, wish, chance)


def admit_resume(settings: Settings, session: str, prompt: str, wish: Wish) -> Admitted:
    """A further question in a session, to who answered before. Raises UsageError as `SessionStore.read` does."""
    config = pools.config_of(settings)
    store = store_of(settings, config)
    name = store.resolve(session)
    kept = store.read(name)
    lane = kept.lane
    if lane is None and kept.source and Path(kept.source).exists():
        lane = lane_of_folder(Path(kept.source), settings)
    pool = pools.pinned(settings, config, kept)
    return _admitted(
        settings, config, pool, "resume", prompt, wish, random.random, source=kept.source, lane=lane, session=name
    )


def note_refusal(settings: Settings, tool: Tool, prompt: str, session: str | None, error: DelegateError) -> None:
    """The line of metrics of a call that was refused before anybody was asked. Never raises."""
    try:
        config = pools.config_of(settings)
    except DelegateError:  # that may be what it was refused for
        config = None
    line = Metrics(
        tool=tool, input_bytes=len(prompt.encode(errors="replace")), duration_ms=0, status="error",
        session_id=session and session[:80], message=str(error),
    )  # fmt: skip
    append_metrics(pools.metrics_file(settings, config), line)


def places_of_ours(settings: Settings, config: ReaderConfig | None) -> tuple[Path, ...]:
    """What no reader gets: our state, also where the configuration moved it."""
    return (*settings.state_dirs, *filter(None, [config.session_dir if config else None]))


def store_of(settings: Settings, config: ReaderConfig | None) -> SessionStore:
    """The sessions of this user."""
    return SessionStore(pools.folder_of_sessions(settings, config), keep_days=settings.session_keep_days)


def _admitted(
    settings: Settings,
    config: ReaderConfig | None,
    pool: Pool,
    tool: Tool,
    prompt: str,
    wish: Wish,
    chance: Callable[[], float],
    *,
    source: str | None = None,
    lane: Lane | None = None,
    session: str | None = None,
) -> Admitted:
    allowed = those_allowed(pool.readers, lane, source)
    budgets = settings.budget_limits(None)
    if source is None:
        budgets = budgets.model_copy(update={"per_repository_per_day_usd": None})
    question = Question(
        id=new_id("rd"),
        tool=tool,
        prompt=_checked(prompt),
        readers=drawn_order(allowed, chance) if pool.drawn else allowed,
        output_tokens=output_tokens(wish.max_output_tokens, config.default_max_output_tokens if config else None),
        source=source,
        session_id=session,
        json_schema=checked_schema(dict(wish.json_schema), "the JSON schema") if wish.json_schema is not None else None,
        when_too_large=wish.when_too_large,
        walker=config.file_walker if config else FileWalker(),
        lane=lane,
        session_dir=pools.folder_of_sessions(settings, config),
        session_days=settings.session_keep_days,
        metrics_file=pools.metrics_file(settings, config),
        local_hosts=settings.local_hosts,
        asked_at=datetime.now(UTC),
        budgets=budgets,
        repository=_repository(source) if source and budgets.per_repository_per_day_usd is not None else source or "",
        warnings=pool.warnings,
    )
    return Admitted(question, pool.keys)


def _repository(source: str) -> str:
    """The repository that a folder or file is of, by its top level; else its own name."""
    place = Path(source).resolve()
    return str(top_level(place if place.is_dir() else place.parent) or place)


def _checked(prompt: str) -> str:
    if not prompt.strip():
        raise UsageError("the prompt is empty: say what you want to know")
    return clean(prompt)
