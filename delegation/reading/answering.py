"""A question answered from beginning to end: files packed, readers asked, references checked, session kept, counted."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from delegation.card import Lane
from delegation.errors import Cancelled, DelegateError, StackError, UsageError, WorkFailed
from delegation.reading.asking import Material, Told, asked
from delegation.reading.changes import Changes, changes, for_the_caller, no_longer_there
from delegation.reading.citations import Checked, checked
from delegation.reading.gate import Gate
from delegation.reading.lane import lane_of_pack, those_allowed
from delegation.reading.metrics import Metrics, append_metrics
from delegation.reading.packing.manifest import Pack
from delegation.reading.providers import AllFailed, Answered, first_answer
from delegation.reading.question import Answer, Question, Reader, WrongReference
from delegation.reading.sessions import Held, SessionStore
from delegation.reading.wording import footer_line, header_line, skips_line

_NOTE_LENGTH = 2000
KeyOf = Callable[[Reader], str | None]


def answered(question: Question, *, key_of: KeyOf, gate: Gate, cancelled: Event | None = None) -> Answer:
    """The answer; its line of metrics is written whatever happens, and its session kept where that can be.

    Raises AllFailed (the only reader of a resume failed: the same), WorkFailed('privacy'), Cancelled, and UsageError
    for a folder or session that is not there, busy or over.
    """
    answering = _Answering(question, key_of, gate, cancelled)
    started = time.monotonic()
    try:
        answer = answering.answer()
    except Exception as error:
        append_metrics(question.metrics_file, answering.failed(error, started))
        raise
    append_metrics(question.metrics_file, answering.done(answer, started))
    return answer


@dataclass
class _Answering:
    question: Question
    key_of: KeyOf
    gate: Gate
    cancelled: Event | None
    pack: Pack | None = None

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.question.session_dir, keep_days=self.question.session_days)

    def answer(self) -> Answer:
        with self._held() as held:
            material = self._material(held)
            self.pack = material.pack
            lane = self._lane()
            readers = those_allowed(self.question.readers, lane, self.question.source)
            found = first_answer(
                readers,
                lambda reader, waiting: self._asked(reader, material, waiting),
                patience_seconds=self.question.patience_seconds,
            )
            told = found.answer
            references = checked(told.answer, self.pack.manifest) if self.pack else Checked(told.answer, ())
            session, problem = self._kept(held, found, lane)
        notes = tuple(filter(None, (for_the_caller(material.changed), *told.warnings, problem)))
        return self._assembled(found, references, session, notes)

    def _held(self) -> AbstractContextManager[Held | None]:
        if self.question.session_id is None:
            return nullcontext()
        return self.store.resume(self.question.session_id)

    def _material(self, held: Held | None) -> Material:
        question = self.question
        if held is None:
            return Material(_packed(Path(question.source), question) if question.source else None)
        session = held.session
        if [session.provider] != [reader.name for reader in question.readers]:
            raise UsageError(f"session {session.id!r} belongs to {session.provider!r}: ask again")
        if session.corpus is None:
            return Material(turns=session.turns)
        kept = self.store.corpora.load(session.corpus)
        return Material(kept, session.turns, _changed(kept, session.source, question))

    def _lane(self) -> Lane | None:
        question = self.question
        if question.lane is None and question.source and self.pack:
            return lane_of_pack(Path(question.source), self.pack.manifest)
        return question.lane

    def _asked(self, reader: Reader, material: Material, waiting: bool) -> Told:
        if self.cancelled is not None and self.cancelled.is_set():
            raise Cancelled("the question was given up")
        with self.gate.reader_slot(reader, waiting=waiting) as reader_slot:
            return asked(
                reader,
                self.question,
                material,
                key=self.key_of(reader),
                reader_slot=reader_slot,
                cancelled=self.cancelled,
            )

    def _kept(
        self, held: Held | None, found: Answered[Reader, Told], lane: Lane | None
    ) -> tuple[str | None, str | None]:
        """The session's id, and what went wrong with keeping it: an answer that was paid for is never lost over it."""
        question, told = self.question, found.answer
        try:
            if held is not None:
                return held.append(question.prompt, told.answer).id, None
            source = Path(question.source) if question.source else None
            session = self.store.create(
                question.tool, provider=found.provider.name, model=found.provider.endpoint.model,
                prompt=question.prompt, answer=told.answer, source=source, pack=self.pack, name=question.id, lane=lane,
            )  # fmt: skip
        except StackError as error:
            return question.session_id, f"the session was not kept, so resume does not know this answer: {error}"
        return session.id, None

    def _assembled(
        self, found: Answered[Reader, Told], references: Checked, session: str | None, notes: tuple[str, ...]
    ) -> Answer:
        question, told, reader = self.question, found.answer, found.provider
        cost = told.spending.cost
        header = header_line(
            question.tool, provider=reader.name, model=reader.endpoint.model, input_tokens=told.input_tokens,
            output_tokens=told.output_tokens, session_id=session or "none", cost=cost,
        )  # fmt: skip
        manifest = self.pack.manifest if self.pack else None
        body = references.text if question.json_schema is None else told.answer
        ends = [
            *(f"note: {note[:_NOTE_LENGTH]}" for note in notes),
            skips_line(manifest.skipped) if manifest else None,
            footer_line(manifest, question.tool) if manifest else None,
        ]
        lines = [each for each in ends if each]
        text = "\n".join([header, body.strip(), *(["", *lines] if lines else [])])
        return Answer(
            tool=question.tool, provider=reader.name, model=reader.endpoint.model, input_tokens=told.input_tokens,
            output_tokens=told.output_tokens, cost=cost, session_id=session, answer=body.strip(), data=told.data,
            text=text, files=len(manifest.files) if manifest else 0, skipped=manifest.skipped if manifest else (),
            requests=told.requests,
            wrong_references=tuple(
                WrongReference(path=each.path, start=each.start, end=each.end, problem=each.problem)
                for each in references.wrong
            ),
            failovers=found.failovers, failures=tuple(map(str, found.failures)), endpoints=told.endpoints,
            warnings=(*question.warnings, *notes),
        )  # fmt: skip

    def done(self, answer: Answer, started: float) -> Metrics:
        return self._line(started).model_copy(
            update={
                "provider": answer.provider, "model": answer.model, "input_tokens": answer.input_tokens,
                "output_tokens": answer.output_tokens, "session_id": answer.session_id, "failovers": answer.failovers,
            }
        )  # fmt: skip

    def failed(self, error: Exception, started: float) -> Metrics:
        said = str(error) if isinstance(error, DelegateError) else f"{type(error).__name__}: {error}"
        failovers = len(error.failures) if isinstance(error, AllFailed) else 0
        session = self.question.session_id
        return self._line(started).model_copy(
            update={"status": "error", "message": said, "failovers": failovers, "session_id": session}
        )

    def _line(self, started: float) -> Metrics:
        manifest = self.pack.manifest if self.pack else None
        return Metrics(
            tool=self.question.tool,
            input_bytes=len(self.question.prompt.encode()) + (manifest.size if manifest else 0),
            duration_ms=round((time.monotonic() - started) * 1000),
            status="ok",
            files_attached=len(manifest.files) if manifest else 0,
        )


def _packed(source: Path, question: Question) -> Pack:
    """The pack. Raises UsageError where there would be nothing to read in it."""
    from delegation.reading.packing.pack import pack  # its rules take longer to load than a question without files

    packed = pack(source, question.walker)
    if packed.texts:
        return packed
    why = ", ".join(f"{count} {reason}" for reason, count in packed.manifest.skip_counts.items())
    raise UsageError(
        f"{str(source)!r} holds nothing to read ({why or 'no files'}): `delegate pack DIR --list` tells more"
    )


def _changed(kept: Pack, source: str | None, question: Question) -> str:
    """What became of the files since, in a sentence; empty where nothing did."""
    from delegation.reading.packing.pack import pack

    if source is None:
        return ""
    try:
        found: Changes = changes(kept.manifest, pack(Path(source), question.walker).manifest)
    except (UsageError, WorkFailed) as error:
        return no_longer_there(error)
    return str(found) if found else ""
