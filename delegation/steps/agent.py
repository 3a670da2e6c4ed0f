"""Third step: the agent works in its tree, on its model, under its limits."""

import threading
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.tools.toolbox import CLOUD_TIMEOUT_SECONDS, LOCAL_TIMEOUT_SECONDS, Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.chat.messages import ChatModel, Message, Reply, ToolSpec
from delegation.checkout.patch import tree_now
from delegation.checkout.worktree import Worktree
from delegation.files import publish
from delegation.records import Progress
from delegation.request import DelegationRequest, Endpoint
from delegation.secrets import value_of
from delegation.settings import load_settings
from delegation.steps.continuing import take_over_conversation
from delegation.steps.place import begin_step, home, record_folder, records
from delegation.steps.room import Room, room_of
from delegation.work import Work

BeforeRequest = Callable[[], None]
OnTurn = Callable[[TurnReport], None]


def work(
    request: DelegationRequest,
    worktree: Worktree,
    *,
    before_request: BeforeRequest = lambda: None,
    on_turn: OnTurn = lambda _: None,
) -> Work:
    """Run the agent to its end, from where an earlier run of the same delegation stopped.

    `work.json` in the record tells what happened, finished or not. Raises the WorkFailed that ended unfinished work.
    """
    begin_step(request.id, "agent")
    started_at = datetime.now(UTC)
    room = room_of(request, worktree, home())
    key = _key(request.endpoint)
    trajectory = Trajectory(record_folder(request.id) / "trajectory.jsonl", secrets=[key] if key else [])
    with connect(request.endpoint, key, allow_hosts=request.local_hosts) as model:
        result = run_agent(
            model=_Gated(model, before_request),
            agent=request.agent,
            task=request.card.task,
            toolbox=_toolbox(request, worktree, room),
            limits=request.limits,
            trajectory=trajectory,
            expects=request.card.expects,
            tree=lambda: tree_now(worktree),
            cancelled=threading.Event(),
            added=take_over_conversation(request, worktree, trajectory),
            on_turn=lambda report: _tell(request, report, on_turn),
        )
        done = _work(result, tuple(sorted(model.contacted)), room, started_at)
    publish(record_folder(request.id) / "work.json", done.model_dump_json(indent=1))
    if result.failure is not None:
        publish(record_folder(request.id) / "failure.txt", "".join(traceback.format_exception(result.failure)))
        raise result.failure
    return done


class _Gated:
    """A model that is asked only while the slot is held."""

    def __init__(self, model: ChatModel, before_request: BeforeRequest) -> None:
        self._model, self._before_request = model, before_request

    @property
    def endpoint(self) -> Endpoint:
        return self._model.endpoint

    @property
    def contacted(self) -> set[str]:
        return self._model.contacted

    def reply(self, *, system: str, messages: Sequence[Message], tools: Sequence[ToolSpec], **options: Any) -> Reply:
        self._before_request()
        return self._model.reply(system=system, messages=messages, tools=tools, **options)


def _key(endpoint: Endpoint) -> str | None:
    if endpoint.key_ref is None:
        return None
    return value_of(home(), endpoint.key_ref, load_settings().environ)


def _toolbox(request: DelegationRequest, worktree: Worktree, room: Room) -> Toolbox:
    return Toolbox(
        root=Path(worktree.root),
        workdir=str(Path(worktree.workdir).relative_to(worktree.root)),
        shell=room.shell if request.run_bash else None,
        bash_timeout_seconds=LOCAL_TIMEOUT_SECONDS if request.endpoint.lane == "local" else CLOUD_TIMEOUT_SECONDS,
        allowed=request.agent.tools,
        may_leave=request.allow_path_escape,
        hidden=(home().root,),
    )


def _tell(request: DelegationRequest, report: TurnReport, on_turn: OnTurn) -> None:
    detail = f"{report.tool_calls} tool calls, last {report.last_tool}" if report.last_tool else None
    progress = Progress(step="agent", turn=report.turn, max_turns=report.max_turns, detail=detail)
    records().write_status(request.id, progress)
    on_turn(report)


def _work(result: AgentResult, endpoints: tuple[str, ...], room: Room, started_at: datetime) -> Work:
    return Work(
        stop_reason=result.stop_reason,
        failure_kind=result.failure.kind if result.failure else None,
        failure_message=str(result.failure) if result.failure else None,
        answer=result.answer,
        claim=result.claim,
        turns=result.turns,
        tool_calls=result.tool_calls,
        malformed_calls=result.malformed_calls,
        nudges=result.nudges,
        last_bash_exit=result.last_bash_exit,
        bash_failures=result.bash_failures,
        usage=result.usage,
        cost=result.cost,
        response_model=result.response_model,
        fallback_note=result.fallback_note,
        costs=result.costs,
        nudge_reply=result.nudge_reply,
        last_text=result.last_text,
        endpoints=endpoints,
        confined_by=room.confined_by,
        warnings=result.warnings,
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
