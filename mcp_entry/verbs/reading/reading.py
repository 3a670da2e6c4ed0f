"""The verbs of the reading lane that both faces share: analyze, query, resume, pack and sessions."""

from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from delegation.errors import DelegateError, UsageError, WorkFailed
from delegation.settings import Settings

if TYPE_CHECKING:  # loaded by the verbs that need them
    from delegation.reading.admission import Admitted, Wish
    from delegation.reading.config import ReaderConfig
    from delegation.reading.metrics import Tool
    from delegation.reading.packing.manifest import Pack
    from delegation.reading.question import Answer
    from delegation.reading.sessions import Pruned, Session, SessionStore
    from delegation.stack_state import StackState
    from mcp_entry.verbs.reading.question_run import Connecting
    from mcp_entry.verbs.reading.slots import Connections

_TELLING_SECONDS = 5.0


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
    """One user's questions. They are admitted here; it works with the stack down.

    A process that `lives_on` after an answer makes it itself, and leaves to another one to record it: that is quicker
    by far, once the connections are open.
    """

    settings: Settings
    lives_on: bool = False
    _connecting: "Connecting | None" = None
    _telling: list[Thread] = field(default_factory=list[Thread])

    def close(self) -> None:
        """Close what was opened for a stack, once the slots of the last answers are given back through it."""
        for thread in self._telling:
            thread.join(_TELLING_SECONDS)
        if self._connecting is not None:
            self._connecting.close()

    def analyze(self, folder: Path, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask about a folder or file. For what is raised see `admission.admit_analyze` and `answering.answered`."""
        from delegation.reading.admission import admit_analyze

        with self._refusals_noted("analyze", prompt):
            admitted = admit_analyze(self.settings, folder, prompt, wish)
        return self._answered(admitted, cancelled)

    def query(self, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask without files."""
        from delegation.reading.admission import admit_query

        with self._refusals_noted("query", prompt):
            admitted = admit_query(self.settings, prompt, wish)
        return self._answered(admitted, cancelled)

    def resume(self, session: str, prompt: str, wish: "Wish", *, cancelled: Event | None = None) -> "Answer":
        """Ask further, with the files of the session. Raises ConflictError while somebody else does."""
        from delegation.reading.admission import admit_resume

        with self._refusals_noted("resume", prompt, session):
            admitted = admit_resume(self.settings, session, prompt, wish)
        return self._answered(admitted, cancelled)

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

    @contextmanager
    def _refusals_noted(self, tool: "Tool", prompt: str, session: str | None = None) -> Generator[None]:
        """Every call has its line of metrics, also one that nobody is asked for."""
        from delegation.reading.admission import note_refusal

        try:
            yield
        except DelegateError as error:
            note_refusal(self.settings, tool, prompt, session, error)
            raise

    def _answered(self, admitted: "Admitted", cancelled: Event | None) -> "Answer":
        """As a flow run where a stack runs; else, and where it cannot begin one, here, and recorded later."""
        from delegation.stack_state import live_state

        state = live_state(self.settings.home)
        if state is None:
            return self._answered_alone(admitted, cancelled)
        from mcp_entry.verbs.reading.question_run import NotBegun, Runs

        runs = Runs(self.settings, state)
        connections = self._connections(state) if self.lives_on else None
        if connections is not None:
            return runs.beside(
                admitted.question,
                admitted.keys,
                cancelled,
                lambda given_up: self._made(admitted, given_up, connections),
            )
        try:
            return runs.answer(admitted.question, admitted.keys, cancelled)
        except NotBegun:
            from mcp_entry.verbs.reading.slots import Connections

            with closing(Connections(state)) as opened:
                return self._answered_alone(admitted, cancelled, opened)

    def _connections(self, state: "StackState") -> "Connections | None":
        """None as long as they are being opened: such a question is answered by a process that has them."""
        from mcp_entry.verbs.reading.question_run import Connecting

        if self._connecting is None or self._connecting.state != state:
            if self._connecting is not None:
                self._connecting.close()
            self._connecting = Connecting(state)
        return self._connecting.connections

    def _answered_alone(
        self, admitted: "Admitted", cancelled: Event | None, connections: "Connections | None" = None
    ) -> "Answer":
        """Nobody else knows of the question, until the next one is recorded."""
        from delegation.reading.kept import Later
        from delegation.reading.labels import unrecorded

        question, later, is_counted = admitted.question, Later(self.settings.home), connections is not None
        try:
            answer = self._made(admitted, cancelled, connections)
        except WorkFailed as failure:
            later.add(unrecorded(question, failure, is_counted=is_counted))
            raise
        later.add(unrecorded(question, answer, is_counted=is_counted))
        return answer

    def _made(self, admitted: "Admitted", cancelled: Event | None, connections: "Connections | None") -> "Answer":
        from delegation.reading.answering import answered
        from delegation.reading.gate import Open
        from delegation.reading.kept import Kept

        keys, kept, own = admitted.keys, Kept(self.settings.home), admitted.question.id
        with ExitStack() as held:
            if connections:
                kept.mark(own, "holds")
                held.callback(kept.unmark, own, "holds")  # when all is told and given back
            gate = held.enter_context(connections.gate(admitted.question)) if connections else Open()
            answer = answered(
                admitted.question, key_of=lambda reader: keys.get(reader.name), gate=gate, cancelled=cancelled
            )
            if self.lives_on:  # after the answer is out; waited for at the end of the process
                telling = Thread(target=held.pop_all().close, name="telling")
                telling.start()
                self._telling[:] = [*(each for each in self._telling if each.is_alive()), telling]
        return answer
