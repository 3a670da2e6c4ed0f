"""Reads a run back from its log, so that it goes on where it stopped and does nothing twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from delegation.agents.results import Counts
from delegation.agents.spending import Spending
from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.trajectory import Event
from delegation.chat.messages import Block, Message, Reply, Text, ToolResult, ToolUse
from delegation.receipt import Cost, Usage

CallState = Literal["done", "lost", "not_started"]


@dataclass
class State:
    """Where a run stands. The last reply may still be `open`: its calls are not all answered.

    `pending` are the user's blocks since that reply. `started` holds the calls with an intent in the log, `earlier`
    those of the delegation that this one goes on with: they are known and not counted. `asking` tells that a request
    has no reply yet.
    """

    task: str
    system: str
    messages: list[Message]
    reply: Reply | None = None
    pending: list[Block] = field(default_factory=list[Block])
    started: set[str] = field(default_factory=set[str])
    answers: dict[str, tuple[ToolUse, ToolAnswer]] = field(default_factory=dict[str, tuple[ToolUse, ToolAnswer]])
    turns: int = 0
    asking: bool = False
    spending: Spending = field(default_factory=Spending)
    response_model: str | None = None
    fallback_note: str | None = None
    elapsed_seconds: float = 0.0
    tree: str | None = None
    changed_since_tree: bool = False
    nudged: str | None = None
    announced_turn: int = 0
    closed: bool = True
    nudges: int = 0
    nudge_reasons: set[str] = field(default_factory=set[str])
    cut_replies: int = 0
    last_tool: str | None = None
    warnings: list[str] = field(default_factory=list[str])
    end: Event | None = None
    earlier: frozenset[str] = frozenset()

    @property
    def counts(self) -> Counts:
        """What the calls came to."""
        answers = [answer for identity, (_, answer) in self.answers.items() if identity not in self.earlier]
        commands = [answer for answer in answers if answer.ran_command]
        return Counts(
            turns=self.turns,
            tool_calls=len(answers),
            malformed_calls=sum(answer.malformed for answer in answers),
            nudges=self.nudges,
            last_bash_exit=commands[-1].exit_code if commands else None,
            bash_failures=sum(answer.exit_code != 0 for answer in commands),
        )

    @property
    def about(self) -> dict[str, str]:
        return {identity: answer.about for identity, (_, answer) in self.answers.items()}

    def call_state(self, use: ToolUse) -> CallState:
        """What is known of one call of the last reply."""
        if any(isinstance(block, ToolResult) and block.id == use.id for block in self.pending):
            return "done"
        return "lost" if use.id in self.started else "not_started"


def state_from(events: Sequence[Event]) -> State | None:
    """The state after these events, None when no run had begun."""
    header = next((event for event in events if event["type"] == "header"), None)
    if header is None:
        return None
    state = State(header["task"], header["system"], [Message.user(header["task"])], tree=header.get("tree"))
    for event in events:
        apply(state, event)
    return state


def apply(state: State, event: Event) -> None:
    """Take one event into the state. The running loop and the reader of an old log both come through here."""
    match event["type"]:
        case "reply":
            _reply(state, event)
        case "request":
            state.asking = True
        case "wasted":
            state.asking = False
            cost = Cost(**event["cost"]) if event["cost"] else None
            state.spending = state.spending.plus(Usage(**event["usage"]), cost)
        case "intent":
            state.started.add(event["id"])
            state.last_tool = event["name"]
        case "result":
            _result(state, event)
        case "note":
            _note(state, event)
        case "turn":
            state.elapsed_seconds = event["elapsed_seconds"]
            state.tree, state.changed_since_tree, state.closed = event["tree"], False, True
        case "resume":
            state.end, state.tree, state.changed_since_tree = None, event["tree"], False
        case "continued":
            _begin_counting_again(state)
        case "handover":
            _hand_over(state, event)
        case "end":
            state.asking, state.end, state.elapsed_seconds = False, event, event["elapsed_seconds"]
        case _:
            pass


def _begin_counting_again(state: State) -> None:
    """The conversation goes on; turns, time, money and calls so far were those of the delegation before."""
    state.end, state.turns, state.elapsed_seconds, state.spending = None, 0, 0.0, Spending()
    state.nudges, state.announced_turn, state.cut_replies, state.nudged = 0, 0, 0, None
    state.response_model = state.fallback_note = None
    state.nudge_reasons.clear()
    state.warnings.clear()
    state.earlier = frozenset(state.answers)


def _hand_over(state: State, event: Event) -> None:
    """A new conversation about the same files; what the run has used and done so far counts on."""
    state.messages = [Message.user("\n\n".join(part for part in (state.task, event["note"]) if part))]
    state.reply, state.pending, state.closed, state.end = None, [], True, None
    state.tree, state.changed_since_tree = event["tree"], False
    state.nudged, state.announced_turn, state.cut_replies = None, 0, 0
    state.response_model = state.fallback_note = None
    state.started.clear()
    state.nudge_reasons.clear()


def close_turn(state: State) -> None:
    """What answered the last reply becomes part of the conversation."""
    if not state.pending:
        return
    before = state.messages.pop().blocks if state.messages[-1].role == "user" else ()
    state.messages.append(Message("user", (*before, *state.pending)))
    state.pending = []


def _reply(state: State, event: Event) -> None:
    close_turn(state)
    message = Message.from_json(event["message"])
    usage, cost = Usage(**event["usage"]), Cost(**event["cost"])
    state.reply = Reply(message.blocks, event["stop"], usage, response_model=event["response_model"])
    state.messages.append(Message("assistant", _sendable(message.blocks)))
    state.started.clear()
    state.asking = state.closed = False
    state.turns += 1
    state.cut_replies = state.cut_replies + 1 if event["stop"] == "length" else 0
    state.spending = state.spending.plus(usage, cost)
    state.warnings += [warning for warning in event["warnings"] if warning not in state.warnings]
    state.response_model = event["response_model"] or state.response_model
    state.fallback_note = event.get("fallback_note") or state.fallback_note
    state.elapsed_seconds = event["elapsed_seconds"]


def _sendable(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks as they may go back: endpoints refuse blank text, and a message that is nothing else."""
    kept = tuple(block for block in blocks if not (isinstance(block, Text) and not block.text.strip()))
    return kept if any(isinstance(block, Text | ToolUse) for block in kept) else (*kept, Text("(no text)"))


def _result(state: State, event: Event) -> None:
    answer = ToolAnswer(**{name: event[name] for name in _ANSWER_FIELDS})
    state.pending.append(ToolResult(event["id"], answer.text, answer.is_error))
    state.answers[event["id"]] = (_use(state, event["id"]), answer)
    state.changed_since_tree |= answer.changed or answer.ran_command


def _use(state: State, identity: str) -> ToolUse:
    uses: Sequence[ToolUse] = state.reply.tool_uses if state.reply else ()
    return next((use for use in uses if use.id == identity), ToolUse(identity, "unknown"))


def _note(state: State, event: Event) -> None:
    state.pending.append(Text(event["text"]))
    if event["reason"] in NUDGES:
        state.nudges += 1
        state.nudge_reasons.add(event["reason"])
    if event["reason"] == "announced":
        state.announced_turn, state.nudged = state.turns, event["about"]


NUDGES = ("announced", "empty", "cut")
_ANSWER_FIELDS = ("text", "is_error", "changed", "malformed", "ran_command", "exit_code", "about")


def answer_facts(answer: ToolAnswer) -> Mapping[str, Any]:
    """The fields of an answer as the log keeps them."""
    return {name: getattr(answer, name) for name in _ANSWER_FIELDS}
