"""One request to the model and its reply, inside the model's context and written to the log."""

from collections.abc import Sequence
from dataclasses import replace

from delegation.agents.bounds import Bounds
from delegation.agents.context import Context
from delegation.agents.journal import Journal
from delegation.agents.prompt import NUDGE_EMPTY
from delegation.agents.repetition import Repetition
from delegation.agents.resume import close_turn
from delegation.agents.spending import cost_of
from delegation.agents.tools.toolbox import Toolbox
from delegation.chat.messages import ChatModel, Reply, ToolUse
from delegation.chat.retry import charged
from delegation.errors import Cancelled, EndpointError
from delegation.models.answered import fallback_note
from delegation.receipt import Usage

_UNKNOWN_CONTEXT_TOKENS = 128_000
_FEWEST_TOKENS = 256


class Asking:
    """Asks for the next reply. Raises EndpointError, Cancelled, and the stop of a bound that is reached."""

    def __init__(
        self, model: ChatModel, toolbox: Toolbox, journal: Journal, bounds: Bounds, repetition: Repetition
    ) -> None:
        self._model = model
        self._tools = toolbox.specs
        self._journal = journal
        self._bounds = bounds
        self._repetition = repetition
        context_tokens = model.endpoint.context_tokens or _UNKNOWN_CONTEXT_TOKENS
        most = max(_FEWEST_TOKENS, context_tokens // 4)
        self.max_tokens = min(bounds.limits.max_tokens, model.endpoint.max_output_tokens, most)
        self._context = Context(context_tokens - self.max_tokens)

    def reply(self) -> Reply:
        """The next reply, recorded. A request too long is trimmed and an empty answer asked about, each once."""
        self._bounds.check_before_asking(self._journal.state)
        close_turn(self._journal.state)
        try:
            reply = self._request(forced=False)
        except EndpointError as error:
            reply = self._second_request(error)
        reply = self._with_own_ids(reply)
        self._record(reply)
        return reply

    def _second_request(self, error: EndpointError) -> Reply:
        match error.kind:
            case "context_overflow":
                return self._request(forced=True)
            case "empty_answer" if "empty" not in self._journal.state.nudge_reasons:
                self._journal.note("empty", NUDGE_EMPTY)
                close_turn(self._journal.state)
                return self._request(forced=False)
            case _:
                raise error

    def _request(self, *, forced: bool) -> Reply:
        state = self._journal.state
        self._make_room(forced=forced)
        estimated = self._context.estimate(state.system, state.messages, self._tools)
        self._journal.record("request", turn=state.turns + 1, estimated_tokens=estimated)
        try:
            reply = self._model.reply(
                system=state.system,
                messages=state.messages,
                tools=self._tools,
                max_tokens=self.max_tokens,
                deadline=self._bounds.deadline,
                on_wasted=self._record_wasted,
                cancelled=self._bounds.cancelled,
            )
        except Cancelled:
            if state.asking:
                self.record_lost_request()
            raise
        self._context.learn(estimated, reply.usage.input_tokens if reply.usage.requests <= 1 else None)
        return reply

    def _make_room(self, *, forced: bool) -> None:
        state = self._journal.state
        fitted = self._context.fitted(state.system, state.messages, self._tools, state.about, forced=forced)
        if fitted.messages is state.messages:
            return
        self._journal.record("dropped", turn=state.turns + 1, ids=sorted(fitted.dropped), turns=fitted.turns)
        for identity in fitted.dropped:
            self._repetition.forget(*state.answers[identity])
        state.messages = fitted.messages

    def _with_own_ids(self, reply: Reply) -> Reply:
        """The reply with call ids that occur only once in the run; some endpoints begin to count anew in each turn."""
        taken, blocks = set(self._journal.state.answers), list(reply.blocks)
        for index, block in enumerate(blocks):
            if isinstance(block, ToolUse):
                identity, copy = block.id, 0
                while identity in taken:
                    copy += 1
                    identity = f"{block.id}_{self._journal.state.turns + 1}_{copy}"
                taken.add(identity)
                blocks[index] = replace(block, id=identity)
        return replace(reply, blocks=tuple(blocks))

    def record_lost_request(self) -> None:
        """A request that was under way when an earlier process ended: nobody knows what came of it."""
        self._record_wasted(Usage(requests=1), (None,))

    def _record_wasted(self, usage: Usage, charges: Sequence[float | None]) -> None:
        """What was refused before an answer began costs nothing; of others a cost that nobody said is unknown."""
        cost = cost_of(usage, charged(charges), self._model.endpoint).model_dump() if charges else None
        self._journal.record("wasted", turn=self._journal.state.turns + 1, usage=usage.model_dump(), cost=cost)

    def _record(self, reply: Reply) -> None:
        self._journal.record(
            "reply",
            turn=self._journal.state.turns + 1,
            message=reply.message.to_json(),
            stop=reply.stop,
            usage=reply.usage.model_dump(),
            cost=cost_of(reply.usage, reply.cost_usd, self._model.endpoint).model_dump(),
            response_model=reply.response_model,
            fallback_note=fallback_note(self._model.endpoint, reply.response_model, reply.routing),
            retried=reply.retried,
            warnings=reply.warnings,
            elapsed_seconds=self._bounds.elapsed_seconds,
        )
