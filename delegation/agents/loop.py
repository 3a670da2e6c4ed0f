"""The loop: ask the model, do what it calls, until something stops it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime

from delegation.agents.bounds import Bounds
from delegation.agents.final_reply import nudge_for
from delegation.agents.journal import Journal
from delegation.agents.model_call import Asking
from delegation.agents.prompt import CALL_CUT, WARN_REPETITION
from delegation.agents.repetition import Repetition
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.resume import state_from
from delegation.agents.run_end import recorded_end, result_of
from delegation.agents.run_start import Tree, begun, settle_interrupted_turn
from delegation.agents.stop_reasons import Broken, CancelRequested, LimitReached, Stop
from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.card import Expects
from delegation.chat.messages import ChatModel, Reply, ToolUse
from delegation.errors import Cancelled, EndpointError, WorkFailed
from delegation.request import Agent, Limits

_CUT_REPLIES = 3


def run_agent(
    *,
    model: ChatModel,
    agent: Agent,
    task: str,
    toolbox: Toolbox,
    limits: Limits,
    trajectory: Trajectory,
    expects: Expects,
    cancelled: threading.Event,
    on_turn: Callable[[TurnReport], None],
    tree: Tree | None = None,
    added: str | None = None,
    today: date | None = None,
) -> AgentResult:
    """Let the model work until it is done or stopped, and say how it ended. A failure of the work is in the result.

    A trajectory that already has turns is continued: its conversation, counts, time and spending go on, a call whose
    effect is unknown is not run again, and a run that was finished gives its recorded result without asking anyone.
    `tree` gives a hash of the files, to tell on resume whether they are as they were left. `added` is a further
    message for a continued run.

    Raises WorkFailed("storage") when the log cannot be read or begun, and what `tree` raises before the first turn.
    """
    look = tree or (lambda: "")
    state = state_from(trajectory.events())
    if state is not None and added is None and (recorded := recorded_end(state)) is not None:
        return recorded
    resumed = state is not None
    state = state or begun(
        trajectory,
        agent=agent,
        task=task,
        toolbox=toolbox,
        endpoint=model.endpoint,
        limits=limits,
        expects=expects,
        tree=look,
        today=today or datetime.now(UTC).date(),
    )
    journal, bounds = Journal(trajectory, state), Bounds(limits, cancelled, state.elapsed_seconds)
    run = _Run(model, toolbox, journal, bounds, expects, on_turn, look)
    stop = run.until_stopped(resumed=resumed, added=added)
    return _recorded(journal, result_of(state, stop, expects, resumed=resumed, mask=trajectory.mask))


def _recorded(journal: Journal, result: AgentResult) -> AgentResult:
    try:
        journal.record("end", **result.facts())
    except WorkFailed as failure:  # a full disk must not hide how the run ended
        return replace(result, failure=result.failure or failure, warnings=(*result.warnings, str(failure)))
    return result


class _Run:
    """The turns of one run. Whatever happens is an event in the journal first."""

    def __init__(
        self,
        model: ChatModel,
        toolbox: Toolbox,
        journal: Journal,
        bounds: Bounds,
        expects: Expects,
        on_turn: Callable[[TurnReport], None],
        tree: Tree,
    ) -> None:
        self._toolbox = toolbox
        self._journal = journal
        self._state = journal.state
        self._bounds = bounds
        self._expects: Expects = expects
        self._on_turn = on_turn
        self._tree = tree
        self._repetition = Repetition()
        self._asking = Asking(model, toolbox, journal, bounds, self._repetition)

    def until_stopped(self, *, resumed: bool, added: str | None) -> Stop:
        """Take turns until one brings a stop; every way out of the loop comes through here."""
        try:
            if resumed:
                self._resume(added)
            while True:
                self._step()
        except Stop as stop:
            reason: Stop = stop
        except Cancelled:
            reason = CancelRequested()
        except WorkFailed as failure:
            too_late = isinstance(failure, EndpointError) and self._bounds.seconds_left <= 0
            reason = self._bounds.time_limit() if too_late else Broken(failure)
        self._state.elapsed_seconds = self._bounds.elapsed_seconds
        return reason

    def _step(self) -> None:
        self._act(self._asking.reply())

    def _resume(self, added: str | None) -> None:
        """Finish the turn that was interrupted, if one was."""
        if self._state.asking:
            self._asking.record_lost_request()
        settle_interrupted_turn(self._journal, self._tree)
        reply = self._state.reply
        if reply is not None and not self._state.closed and (reply.tool_uses or added is None):
            self._act(reply)
        if added is not None:
            self._journal.note("added", added)

    def _act(self, reply: Reply) -> None:
        """Do what the reply asks for; what was already done of it is not done again."""
        if reply.stop == "refusal":
            raise Broken(WorkFailed("refused", f"the model refused: {reply.text.strip()[:500] or 'it gave no reason'}"))
        for use in reply.tool_uses:
            if self._state.call_state(use) == "not_started":
                self._bounds.check()
                self._call(use, reply)
        if not reply.tool_uses and not self._state.pending:
            may_ask = self._bounds.allows_another_turn(self._state)
            nudge = nudge_for(reply, self._state, self._expects, may_ask=may_ask)
            self._journal.note(nudge.reason, nudge.text, nudge.about)
        self._close(reply)

    def _call(self, use: ToolUse, reply: Reply) -> None:
        if reply.stop == "length":
            text = CALL_CUT.format(max_tokens=f"{self._asking.max_tokens:,}")
            self._journal.result(use, ToolAnswer(text, is_error=True, malformed=True))
            return
        self._journal.record("intent", turn=self._state.turns, id=use.id, name=use.name)
        self._journal.result(use, self._toolbox.call(use, self._bounds.seconds_left))

    def _close(self, reply: Reply) -> None:
        """The end of a turn: notes, the line in the log, the report; then the stop, if there is a reason for one."""
        notice = self._repetition.after_turn([self._state.answers[use.id] for use in reply.tool_uses])
        if notice == "warn":
            self._journal.note("repetition", WARN_REPETITION)
        for note in self._bounds.notes(self._state):
            self._journal.note("countdown", note)
        self._report()
        if notice == "stop":
            raise LimitReached("repetition", "stopped: the model repeated calls whose results it already had")
        if self._state.cut_replies >= _CUT_REPLIES:
            raise Broken(WorkFailed("truncated", f"{_CUT_REPLIES} replies in a row were cut at the output limit"))

    def _report(self) -> None:
        state, counts = self._state, self._state.counts
        self._journal.record(
            "turn",
            turn=counts.turns,
            tool_calls=counts.tool_calls,
            last_tool=state.last_tool,
            elapsed_seconds=self._bounds.elapsed_seconds,
            tree=self._tree() if state.changed_since_tree else state.tree,
        )
        self._on_turn(
            TurnReport(
                turn=counts.turns,
                max_turns=self._bounds.limits.max_turns,
                tool_calls=counts.tool_calls,
                last_tool=state.last_tool,
                elapsed_seconds=state.elapsed_seconds,
                usage=state.spending.usage,
            )
        )
