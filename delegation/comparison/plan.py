"""What a comparison is to be: every trial with its id and its whole request, before any of them begins.

It is resolved where it is asked for, with the asker's models and keys, and written down. So whoever works on it, also
after a kill, has nothing to decide: a trial that has a record has begun, and one with a receipt is done.
"""

from datetime import datetime

from pydantic import Field

from delegation.card import Card
from delegation.notification.notice import Hook
from delegation.records.store import title_of
from delegation.records.wording import count
from delegation.request import DelegationRequest
from delegation.values import Value


class Contender(Value):
    """One model. All its trials have this request, but for the id and the key."""

    model: str = Field(description="As it was asked for.")
    request: DelegationRequest


class Trial(Value):
    """One delegation of the comparison."""

    model: str
    repeat: int = Field(description="From 1.")
    delegation_id: str


class Comparison(Value):
    """The whole plan. The trials stand in the order in which they begin: first each model once, then each again."""

    id: str
    card: Card = Field(description="As it was asked for.")
    repeats: int
    in_flight: int = Field(description="Trials at a time, also those that wait for a slot.")
    base_commit: str | None
    contenders: tuple[Contender, ...]
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...]
    notify: Hook | None = Field(default=None, description="The command that is told of its end; its trials tell none.")
    created_at: datetime

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(each.model for each in self.contenders)

    @property
    def title(self) -> str:
        """What its flow run is called."""
        return f"Comparison of {count(len(self.contenders), 'model')}: {title_of(self.card.task)}"

    def contender(self, model: str) -> Contender:
        return next(each for each in self.contenders if each.model == model)

    def request_of(self, trial: Trial, now: datetime) -> DelegationRequest:
        """What the trial runs with. Its time in the queue counts from `now`, not from when the comparison was asked
        for; its key makes that it is entered once, however often that is tried."""
        request = self.contender(trial.model).request
        card = request.card.model_copy(update={"key": f"{self.id}:{trial.repeat}:{trial.model}"})
        return request.model_copy(update={"id": trial.delegation_id, "card": card, "created_at": now})
