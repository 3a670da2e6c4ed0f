"""The model as the agent's loop sees it: asked only with a slot and money for it, and everything it does is told."""

from collections.abc import Sequence
from typing import Any, Protocol

from delegation.agents.spending import cost_of
from delegation.chat.messages import ChatModel, Message, OnWasted, Reply, ToolSpec
from delegation.chat.retry import charged
from delegation.errors import EndpointError, WorkFailed
from delegation.receipt import Cost, Usage
from delegation.request import Endpoint
from delegation.steps.contacts import Contacts


class Withheld(WorkFailed):
    """The model was not asked: the gate has to decide anew. Nothing is known against the model but what others met."""


class SlotLost(Withheld):
    """The slot was lost, and another holds it or waits for it."""


class Gatekeeper(Protocol):
    """Who lets a model be asked, and hears at once what came of it."""

    def before_request(self) -> None:
        """Returns when the model may be asked. Raises WorkFailed when it may not be any more."""
        ...

    def answered(self) -> None: ...

    def refused(self, error: EndpointError) -> None: ...

    def paid(self, cost: Cost, requests: int) -> None:
        """What an answer has cost, or requests that brought none."""
        ...


class GatedModel:
    """A `ChatModel` around another one. Without a gatekeeper everything is let through."""

    def __init__(self, model: ChatModel, gatekeeper: Gatekeeper | None, contacts: Contacts) -> None:
        self._model, self._gatekeeper, self.contacts = model, gatekeeper, contacts

    @property
    def endpoint(self) -> Endpoint:
        return self._model.endpoint

    @property
    def contacted(self) -> set[str]:
        return self._model.contacted

    def reply(self, *, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], **options: Any) -> Reply:
        told = self._wasted(options.get("on_wasted"))
        question: dict[str, Any] = {
            "system": system,
            "messages": messages,
            "tools": tools,
            **options,
            "on_wasted": told,
        }
        gatekeeper = self._gatekeeper
        if gatekeeper is None:
            return self._asked(question)
        gatekeeper.before_request()
        try:
            reply = self._asked(question)
        except EndpointError as error:
            gatekeeper.refused(error)
            raise
        gatekeeper.answered()
        gatekeeper.paid(cost_of(reply.usage, reply.cost_usd, self.endpoint), reply.usage.requests)
        return reply

    def _asked(self, question: dict[str, Any]) -> Reply:
        try:
            return self._model.reply(**question)
        finally:
            self.contacts.add(self._model.contacted)

    def _wasted(self, told: OnWasted | None) -> OnWasted:
        def wasted(usage: Usage, charges: Sequence[float | None]) -> None:
            if told is not None:
                told(usage, charges)
            if self._gatekeeper is not None and charges:
                self._gatekeeper.paid(cost_of(usage, charged(charges), self.endpoint), usage.requests)

        return wasted
