"""One reader asked one question: in one request where the files fit, else part by part and then from the notes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from delegation.agents.spending import Spending, cost_of
from delegation.chat.attempt import AttemptFailed, Timeouts
from delegation.chat.client import connect
from delegation.chat.history import clean
from delegation.chat.messages import ChatModel, Message, Reply, Text
from delegation.chat.retry import NO_RETRIES, charged
from delegation.errors import EndpointError, WorkFailed
from delegation.reading import prompts
from delegation.reading.gate import ReaderSlot
from delegation.reading.packing.manifest import Pack
from delegation.reading.packing.rendering import estimated_tokens, rendered
from delegation.reading.question import Question, Reader
from delegation.reading.sessions import Turn
from delegation.reading.splitting import Plan, plan_for
from delegation.reading.typed import Unfitting, fitting
from delegation.reading.wording import empty_answer, usable_answer
from delegation.receipt import Cost, Usage

_LONGEST_CONNECT_SECONDS = 30.0
_LATER_SECONDS = 5.0  # the deadline of the whole request comes first
_AROUND_TOKENS = 100  # what the format and our own words put around the texts
Notes = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Material:
    """What a question is about: the files, what was said before, and what became of the files meanwhile."""

    pack: Pack | None = None
    turns: tuple[Turn, ...] = ()
    changed: str = ""


@dataclass
class Told:
    """What one reader answered and what it took. A count is None as soon as one request's was not told."""

    answer: str = ""
    data: Any = None
    spending: Spending = field(default_factory=Spending)
    input_tokens: int | None = 0
    output_tokens: int | None = 0
    requests: int = 0
    endpoints: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list[str])

    def count(self, reply: Reply, reader: Reader) -> Cost:
        usage = reply.usage
        cost = cost_of(usage, reply.cost_usd, reader.endpoint)
        self.spending = self.spending.plus(usage, cost)
        self.input_tokens = _sum(self.input_tokens, usage.input_tokens)
        self.output_tokens = _sum(self.output_tokens, usage.output_tokens)
        self.requests += 1
        self.warnings += [each for each in reply.warnings if each not in self.warnings]
        return cost


def asked(
    reader: Reader,
    question: Question,
    material: Material,
    *,
    key: str | None,
    reader_slot: ReaderSlot,
    cancelled: Event | None = None,
) -> Told:
    """The reader's answer, complete and of the shape that was asked for.

    Raises EndpointError for every way in which the reader failed (too slow is `stalled`; an empty answer says the
    remedy), WorkFailed('context_overflow') where the files may not or cannot be divided, and Cancelled.
    """
    patience = reader.timeout_seconds
    timeouts = Timeouts(connect=min(_LONGEST_CONNECT_SECONDS, patience), read_gap=patience + _LATER_SECONDS)
    with connect(
        reader.endpoint, key, allow_hosts=question.local_hosts, policy=NO_RETRIES, timeouts=timeouts,
        stream=reader.stream,
    ) as model:  # fmt: skip
        asking = _Asking(model, reader, question, reader_slot, cancelled)
        told = asking.answered(material)
        told.endpoints = tuple(sorted(model.contacted))
        return told


class _Asking:
    """A connection to one reader, and the account of what it took."""

    def __init__(
        self, model: ChatModel, reader: Reader, question: Question, reader_slot: ReaderSlot, cancelled: Event | None
    ) -> None:
        self._model, self._reader, self._question = model, reader, question
        self._reader_slot, self._cancelled = reader_slot, cancelled
        self._room = reader.room(question.output_tokens)
        self._told = Told()

    def answered(self, material: Material) -> Told:
        prompt = prompts.with_changes(self._question.prompt, material.changed)
        whole = prompts.typed(prompt, self._question.json_schema)
        past = [message for turn in material.turns for message in _said(turn)]
        if material.pack is None:
            self._finish(prompts.SYSTEM_WITHOUT_FILES, [*past, Message.user(whole)])
            return self._told
        reserved = _tokens(prompts.SYSTEM, whole, *(each for turn in material.turns for each in _texts(turn)))
        plan = plan_for(
            material.pack,
            max_input_tokens=self._room,
            reserved_tokens=reserved,
            when_too_large=self._question.when_too_large,
        )
        if plan.split:
            self._from_parts(material.pack, plan, prompts.with_past(prompt, material.turns))
        else:
            self._finish(prompts.SYSTEM, [*_files(rendered(material.pack)), *past, Message.user(whole)])
        return self._told

    def _from_parts(self, pack: Pack, plan: Plan, prompt: str) -> None:
        """Notes on each part, condensed until they fit, then the answer from them."""
        notes = [self._note(pack, plan, number, prompt) for number in range(len(plan.parts))]
        whole = prompts.typed(prompt, self._question.json_schema)
        while not self._fits(prompts.combining(whole, notes)):
            notes = self._condensed(notes, prompt)
        self._told.warnings.append(f"the files were read in {len(plan.parts)} parts: {plan}")
        self._finish(prompts.SYSTEM, [Message.user(prompts.combining(whole, notes))])

    def _note(self, pack: Pack, plan: Plan, number: int, prompt: str) -> tuple[str, str]:
        part = plan.parts[number]
        files = rendered(pack, part.pieces, heading=plan.heading(number))
        reply = self._request(prompts.SYSTEM, [*_files(files), Message.user(prompts.about_part(prompt))])
        return part.label, self._note_of(reply, part.label)

    def _condensed(self, notes: Notes, prompt: str) -> list[tuple[str, str]]:
        """Fewer notes, each from as many as fit. Raises WorkFailed('context_overflow') where no two do."""
        groups: list[list[tuple[str, str]]] = []
        for note in notes:
            if groups and self._fits(prompts.condensing(prompt, [*groups[-1], note])):
                groups[-1].append(note)
            else:
                groups.append([note])
        if len(groups) == len(notes):
            raise WorkFailed(
                "context_overflow",
                f"the notes on {len(notes)} parts do not fit into the {self._room:,} tokens that "
                f"{self._reader.name!r} takes at once: lower max_output_tokens, or name a smaller folder",
            )
        return [self._one(group, prompt) for group in groups]

    def _one(self, group: Notes, prompt: str) -> tuple[str, str]:
        if len(group) == 1:
            return group[0]
        reply = self._request(prompts.SYSTEM, [Message.user(prompts.condensing(prompt, group))])
        label = " and ".join(label for label, _ in group)
        return label, self._note_of(reply, label)

    def _note_of(self, reply: Reply, label: str) -> str:
        """Notes may be cut: what they hold is still of use, and the caller is told."""
        self._check_is_no_refusal(reply)
        if reply.stop == "length":
            self._told.warnings.append(f"the notes on {label} reached max_output_tokens: raise it to lose nothing")
        return clean(reply.text)

    def _finish(self, system: str, messages: list[Message]) -> None:
        """The last step: the answer itself, asked for once more where it does not fit the schema."""
        self._check_fits(system, messages)
        self._told.answer = self._usable(self._request(system, messages))
        schema = self._question.json_schema
        if schema is None:
            return
        try:
            self._told.data = fitting(self._told.answer, schema)
        except Unfitting as unfitting:
            again = [*messages, _assistant(self._told.answer), Message.user(prompts.once_more(str(unfitting)))]
            self._told.answer = self._usable(self._request(system, again))
            self._told.data = self._fitting_now(schema)

    def _fitting_now(self, schema: dict[str, Any]) -> Any:
        try:
            return fitting(self._told.answer, schema)
        except Unfitting as unfitting:
            raise EndpointError(
                "empty_answer", f"{self._reader.name!r} answered twice with what does not fit the schema: {unfitting}"
            ) from None

    def _usable(self, reply: Reply) -> str:
        self._check_is_no_refusal(reply)
        return usable_answer(clean(reply.text), cut=reply.stop == "length", limit=self._question.output_tokens)

    def _check_is_no_refusal(self, reply: Reply) -> None:
        if reply.stop == "refusal":
            raise EndpointError("refused", f"{self._reader.name!r} declined to answer: {reply.text[:300]}")

    def _request(self, system: str, messages: Sequence[Message]) -> Reply:
        """One request. Whoever admits it is asked before and told after."""
        limit = self._question.output_tokens
        self._reader_slot.before(_tokens_of(system, messages), limit)
        try:
            reply = self._model.reply(
                system=system, messages=messages, tools=(), max_tokens=limit,
                deadline=time.monotonic() + self._reader.timeout_seconds, cancelled=self._cancelled,
                on_wasted=self._wasted,
            )  # fmt: skip
        except WorkFailed as failure:
            self._reader_slot.after(failure)
            raise self._translated(failure) from failure
        self._reader_slot.after(None)
        cost = self._told.count(reply, self._reader)
        self._reader_slot.paid(cost)
        return reply

    def _wasted(self, usage: Usage, charges: Sequence[float | None]) -> None:
        """An answer that is of no use may have been paid all the same."""
        if charges:
            self._reader_slot.paid(cost_of(usage, charged(charges), self._reader.endpoint), usage.requests)

    def _translated(self, failure: WorkFailed) -> WorkFailed:
        """In the caller's words: its time limit is the reader's fault, and an empty answer has a remedy."""
        cause = failure.__cause__
        remedy = cause.remedy if isinstance(cause, AttemptFailed) else None
        if failure.kind == "time_limit":
            name, seconds = self._reader.name, self._reader.timeout_seconds
            return EndpointError("stalled", f"{name!r} had not answered after {seconds:g} s (its time limit)")
        if failure.kind == "empty_answer" or (failure.kind == "truncated" and remedy == "reask_more"):
            return empty_answer(self._question.output_tokens)
        return failure

    def _fits(self, prompt: str) -> bool:
        return self._room is None or _tokens(prompts.SYSTEM, prompt) <= self._room

    def _check_fits(self, system: str, messages: Sequence[Message]) -> None:
        """Raises WorkFailed('context_overflow'): what is known to be too large is not sent."""
        if self._room is None:
            return
        needed = _tokens_of(system, messages)
        if needed > self._room:
            raise WorkFailed(
                "context_overflow",
                f"the question is about {needed:,} tokens and {self._reader.name!r} takes {self._room:,} at once: "
                "ask for less, or begin anew with analyze or query",
            )


def _files(text: str) -> list[Message]:
    """The files as a message of their own: the same bytes before every question, so that a provider's cache holds."""
    return [Message.user(text), _assistant(prompts.HAVE_THE_FILES)]


def _said(turn: Turn) -> list[Message]:
    return [Message.user(turn.prompt), _assistant(turn.answer)]


def _texts(turn: Turn) -> tuple[str, str]:
    return turn.prompt, turn.answer


def _assistant(text: str) -> Message:
    return Message("assistant", (Text(text),))


def _tokens(*texts: str) -> int:
    return sum(map(estimated_tokens, texts)) + _AROUND_TOKENS


def _tokens_of(system: str, messages: Sequence[Message]) -> int:
    return _tokens(system, *(block.text for each in messages for block in each.blocks if isinstance(block, Text)))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
