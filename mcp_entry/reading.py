"""The verbs of the reading lane that both faces share: analyze, query, resume, pack and sessions."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from delegation.errors import UsageError, WorkFailed
from delegation.settings import Settings

if TYPE_CHECKING:  # loaded by the verbs that need them
    from delegation.reading.admission import Admitted, Wish
    from delegation.reading.config import ReaderConfig
    from delegation.reading.cooling import Cooling
    from delegation.reading.packing.pack import Pack
    from delegation.reading.question import Answer
    from delegation.reading.sessions import Pruned, Session, SessionStore
    from delegation.stack_state import StackState
    from mcp_entry.reading_run import Runs


def with_config(settings: Settings, path: str | None) -> Settings:
    """The settings with a reader's configuration that somebody named on the command line."""
    return settings.model_copy(update={"reader_config": settings.path(path)}) if path else settings


def check_named_config(settings: Settings) -> tuple[str, ...]:
    """What is odd in a reader's configuration that was named. Raises UsageError where it is missing or not valid."""
    from delegation.reading.pool import config_of

    config = config_of(settings) if settings.reader_config is not None else None
    return config.warnings if config else ()


def can_read(settings: Settings) -> bool:
    """Whether anybody can be asked here."""
    from delegation.reading.pool import can_be_asked

    return can_be_asked(settings)


@dataclass
class Reading:
    """One user's questions. They are admitted here; it works with the stack down."""

    settings: Settings
    _runs: "Runs | None" = None

    def analyze(self, folder: Path, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask about a folder or file. For what is raised see `admission.admit_analyze` and `answering.answered`."""
        from delegation.reading.admission import admit_analyze

        return self._answered(admit_analyze(self.settings, folder, prompt, wish), cancelled)

    def query(self, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask without files."""
        from delegation.reading.admission import admit_query

        return self._answered(admit_query(self.settings, prompt, wish), cancelled)

    def resume(self, session: str, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask further, with the files of the session. Raises ConflictError while somebody else does."""
        from delegation.reading.admission import admit_resume

        return self._answered(admit_resume(self.settings, session, prompt, wish), cancelled)

    def pack(self, folder: Path) -> "Pack":
        """What a reader would get of a folder or file. Nothing is sent."""
        from delegation.reading.admission import places_of_ours
        from delegation.reading.lane import refuse_our_state
        from delegation.reading.packing.pack import pack

        refuse_our_state(folder, places_of_ours(self.settings, self.config))
        return pack(folder, self.config.file_walker if self.config else None)

    def sessions(self) -> "list[Session]":
        """Those that can be resumed, newest first."""
        store = self._store
        found: list[Session] = []
        for name in store.ids():
            try:
                found.append(store.read(name))
            except UsageError:  # over, damaged, or just removed
                continue
        return found

    def prune(self) -> "Pruned":
        """Remove sessions that are over, and packs that no session names."""
        return self._store.prune()

    @cached_property
    def config(self) -> "ReaderConfig | None":
        from delegation.reading.pool import config_of

        return config_of(self.settings)

    @property
    def _store(self) -> "SessionStore":
        from delegation.reading.admission import store_of

        return store_of(self.settings, self.config)

    def _answered(self, admitted: "Admitted", cancelled: Event | None) -> "Answer":
        """As a flow run where a stack runs; else, and where it cannot begin one, here, and recorded later."""
        from delegation.stack_state import live_state

        state = live_state(self.settings.home)
        if state is None:
            return self._answered_here(admitted, cancelled, None)
        from mcp_entry.reading_run import NotBegun, Runs

        if self._runs is None or self._runs.state != state:
            self._runs = Runs(self.settings, state)
        try:
            return self._runs.answer(admitted.question, admitted.keys, cancelled)
        except NotBegun:
            return self._answered_here(admitted, cancelled, state)

    def _answered_here(self, admitted: "Admitted", cancelled: Event | None, state: "StackState | None") -> "Answer":
        from delegation.reading.answering import answered
        from delegation.reading.cooling import Unknown
        from delegation.reading.kept import Later
        from delegation.reading.labels import unrecorded

        question, keys, later = admitted.question, admitted.keys, Later(self.settings.home)
        cooling = self._shared(state.database_url) if state else Unknown()
        try:
            answer = answered(
                question, key_of=lambda reader: keys.get(reader.name), cooling=cooling, cancelled=cancelled
            )
        except WorkFailed as failure:
            later.add(unrecorded(question, failure))
            raise
        later.add(unrecorded(question, answer))
        return answer

    def _shared(self, database_url: str) -> "Cooling":
        from delegation.reading.cooling import Shared
        from delegation.shared_state import SharedState

        known = self.__dict__.setdefault("_tables", {})
        if database_url not in known:
            known[database_url] = Shared(SharedState(database_url))
        return known[database_url]
