"""The state of a run and its log, always in step: what happens is written first and then taken into the state."""

from delegation.agents.resume import State, answer_facts, apply
from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.trajectory import EventType, Trajectory
from delegation.chat.messages import ToolUse


class Journal:
    """Records events. Raises WorkFailed("storage") when one cannot be written; the state is then as it was."""

    def __init__(self, trajectory: Trajectory, state: State) -> None:
        self._trajectory = trajectory
        self.state = state

    def record(self, kind: EventType, **facts: object) -> None:
        apply(self.state, self._trajectory.append(kind, **facts))

    def note(self, reason: str, text: str, about: str | None = None) -> None:
        """Something we say to the model with its next request."""
        self.record("note", turn=self.state.turns, reason=reason, text=text, about=about)

    def result(self, use: ToolUse, answer: ToolAnswer) -> None:
        self.record("result", turn=self.state.turns, id=use.id, **answer_facts(answer))
