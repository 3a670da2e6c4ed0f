"""Third step: the agent works in its tree, on its model, under its limits."""

import os
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from delegation.agents.attempts import attempts_in
from delegation.agents.loop import run_agent
from delegation.agents.results import AgentResult, TurnReport
from delegation.agents.tools.toolbox import CLOUD_TIMEOUT_SECONDS, LOCAL_TIMEOUT_SECONDS, Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.chat.retry import RetryPolicy
from delegation.checkout.patch import tree_now
from delegation.checkout.worktree import Worktree
from delegation.files import publish
from delegation.receipt import Attempt
from delegation.records import Progress
from delegation.records.wording import count
from delegation.request import DelegationRequest, Endpoint
from delegation.settings import environment
from delegation.steps.agent_sandbox import AgentSandbox, sandbox_of
from delegation.steps.contacts import Contacts
from delegation.steps.continuing import take_over_conversation
from delegation.steps.folders import begin_step, home, record_folder, records
from delegation.steps.gated import GatedModel, Gatekeeper
from delegation.steps.known_secrets import key_of, known_secrets
from delegation.steps.unwalled import watch_checkout
from delegation.work import Work

OnTurn = Callable[[TurnReport], None]


def work(
    request: DelegationRequest,
    worktree: Worktree,
    *,
    endpoint: Endpoint | None = None,
    gatekeeper: Gatekeeper | None = None,
    on_turn: OnTurn = lambda _: None,
) -> Work:
    """Run the agent to its end, from where an earlier run of the same delegation stopped. `endpoint` is the model of
    the chain that has the work; none means the first.

    `work.json` in the record tells what happened, finished or not. Raises the WorkFailed that ended unfinished work.
    """
    begin_step(request.id, "agent")
    started_at = datetime.now(UTC)
    sandbox = sandbox_of(request, worktree, home())
    endpoint = endpoint or request.endpoint
    key = key_of(endpoint, environment())
    mask = known_secrets(request)
    trajectory = Trajectory(record_folder(request.id) / "trajectory.jsonl", secrets=mask.values)
    with (
        watch_checkout(request, confined=sandbox.confiner is not None) as watched,
        connect(
            endpoint,
            key,
            allow_hosts=request.local_hosts,
            on_refused=lambda tries: _tell_refused(request.id, endpoint, tries),
        ) as model,
    ):
        gated = GatedModel(model, gatekeeper, Contacts(record_folder(request.id)))
        result = run_agent(
            model=gated,
            agent=request.agent,
            task=request.card.task,
            toolbox=_toolbox(request, endpoint, worktree, sandbox),
            limits=request.limits,
            trajectory=trajectory,
            expects=request.card.expects,
            tree=lambda: tree_now(worktree),
            cancelled=threading.Event(),
            added=take_over_conversation(request, worktree, trajectory),
            on_turn=lambda report: _tell(request, report, on_turn),
        )
        attempts = attempts_in(trajectory.outline(), (request.endpoint, *request.chain))
        done = _work(result, endpoint, attempts, gated.contacts.all(), sandbox, started_at)
    done = mask.value(done.model_copy(update={"warnings": (*done.warnings, *watched.warnings)}))
    publish(record_folder(request.id) / "work.json", done.model_dump_json(indent=1))
    if result.failure is not None:
        raised = "".join(traceback.format_exception(result.failure))
        publish(record_folder(request.id) / "failure.txt", mask.text(raised))
        raise mask.error(result.failure)
    return done


def _toolbox(request: DelegationRequest, endpoint: Endpoint, worktree: Worktree, sandbox: AgentSandbox) -> Toolbox:
    return Toolbox(
        root=Path(worktree.root),
        workdir=str(Path(worktree.workdir).relative_to(worktree.root)),
        shell=sandbox.shell if request.run_bash else None,
        bash_timeout_seconds=LOCAL_TIMEOUT_SECONDS if endpoint.lane == "local" else CLOUD_TIMEOUT_SECONDS,
        allowed=request.agent.tools,
        may_leave=request.allow_path_escape,
        hidden=(home().root,),
    )


def _tell_refused(delegation_id: str, endpoint: Endpoint, tries: int) -> None:
    """A server that restarts is waited for; who watches sees where and since how many tries."""
    most = len(RetryPolicy.connect_waits_seconds)
    detail = f"waiting for the endpoint at {endpoint.base_url} (refused, try {tries} of {most}, up to 2 min in all)"
    known = records().status(delegation_id) or Progress(step="agent")
    records().write_status(delegation_id, known.model_copy(update={"detail": detail, "updated_at": datetime.now(UTC)}))


def _tell(request: DelegationRequest, report: TurnReport, on_turn: OnTurn) -> None:
    detail = f"{count(report.tool_calls, 'tool call')}, last {report.last_tool}" if report.last_tool else None
    progress = Progress(step="agent", turn=report.turn, max_turns=report.max_turns, detail=detail, pid=os.getpid())
    records().write_status(request.id, progress)
    on_turn(report)


def _work(
    result: AgentResult,
    endpoint: Endpoint,
    attempts: tuple[Attempt, ...],
    endpoints: tuple[str, ...],
    sandbox: AgentSandbox,
    started_at: datetime,
) -> Work:
    return Work(
        model_used=endpoint.alias,
        attempts=attempts,
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
        confined_by=sandbox.confined_by,
        warnings=result.warnings,
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
