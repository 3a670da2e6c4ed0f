"""How a run begins: anew with its first event, or where its log says it stopped."""

from collections.abc import Callable
from datetime import date

from delegation.agents.journal import Journal
from delegation.agents.prompt import (
    CALL_LOST,
    CALL_NOT_STARTED,
    FILES_DIFFER,
    FILES_SAME,
    FILES_UNKNOWN,
    RESUMED_ELSEWHERE,
    system_prompt,
)
from delegation.agents.resume import State, state_from
from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.card import Expects
from delegation.request import Agent, Endpoint, Limits

Tree = Callable[[], str]


def begun(
    trajectory: Trajectory,
    *,
    agent: Agent,
    task: str,
    toolbox: Toolbox,
    endpoint: Endpoint,
    limits: Limits,
    expects: Expects,
    tree: Tree,
    today: date,
) -> State:
    """The state of a new run, with the header in its log."""
    workdir = str(toolbox.tree.root / toolbox.tree.start)
    header = trajectory.append(
        "header",
        schema=Trajectory.SCHEMA,
        agent=agent.name,
        agent_source=agent.source,
        model=endpoint.model,
        alias=endpoint.alias,
        task=task,
        expects=expects,
        system=system_prompt(agent, workdir=workdir, expects=expects, tools=toolbox.names, today=today),
        tools=toolbox.names,
        max_turns=limits.max_turns,
        tree=tree(),
    )
    state = state_from([header])
    assert state is not None, "a header makes a state"
    return state


def settle_interrupted_turn(journal: Journal, tree: Tree) -> None:
    """Answer the calls that were under way when the run stopped, without running any, and say what became of the files.

    Where nothing was lost and the files are as they were left, calls that had not begun stay to be done.
    """
    state = journal.state
    now, explained = tree(), state.changed_since_tree
    same = now == state.tree
    lost = [use for use in state.reply.tool_uses if state.call_state(use) == "lost"] if state.reply else []
    elsewhere = bool(state.tree) and not same and not explained
    files = FILES_UNKNOWN if explained or not state.tree else FILES_SAME if same else FILES_DIFFER
    journal.record("resume", turn=state.turns, tree=now, tree_changed=not same)
    if lost or elsewhere:
        _answer_open_calls(journal, files)
    if elsewhere and not lost:
        journal.note("resumed", RESUMED_ELSEWHERE)


def _answer_open_calls(journal: Journal, files: str) -> None:
    for use in journal.state.reply.tool_uses if journal.state.reply else ():
        known = journal.state.call_state(use)
        if known != "done":
            text = CALL_LOST.format(files=files) if known == "lost" else CALL_NOT_STARTED
            journal.result(use, ToolAnswer(text, is_error=True, changed=known == "lost"))
