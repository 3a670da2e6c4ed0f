"""The steps of a delegation as Prefect tasks: name and persistence, and nothing of what a step does.

A step gets the delegation's id and reads the rest from the record. Prefect draws an arrow for every argument that it
has seen in a result, strings included; what the flow passes as `unseen` it does not look at, and `wait_for` names the
step before. The agent task alone retries, and only to sit out a cooldown that is short (Prefect shows it as
AwaitingRetry); a long one parks the whole flow run, which then has no process. Short faults are the chat layer's.
"""

from typing import TypeVar, cast

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.utilities.annotations import quote

from delegation import steps
from delegation.card import Card
from delegation.checkout.patch import Patch
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.receipt import Receipt, Verification
from delegation.request import DelegationRequest
from delegation.steps.record import worktree_of
from delegation.work import Work
from tasks.agent import work_in_a_slot
from tasks.cooldown import MOST_SHORT_WAITS, sits_out_short_cooldown
from tasks.full_disk import is_full_disk
from tasks.limits import ensure_limits
from tasks.persistence import once_per_run

_T = TypeVar("_T")


def unseen(argument: _T) -> _T:
    """An argument that makes no arrow; the task itself gets it as it is."""
    return cast("_T", quote(argument))


def _prepare(card: Card | None, request: DelegationRequest | None) -> str:
    whole = steps.prepare(card, request, flow_run.get_id())
    if whole.tool == "ui":
        ensure_limits(whole)
    return whole.id


def _make_worktree(delegation_id: str) -> Worktree:
    return steps.make_worktree(_request(delegation_id))


def _work(delegation_id: str) -> Work:
    return work_in_a_slot(_request(delegation_id), _worktree(delegation_id))


def _collect(delegation_id: str) -> Patch | None:
    return steps.collect(_request(delegation_id), _worktree(delegation_id))


def _verify(delegation_id: str, patch: Patch) -> Verification:
    return steps.verify(_request(delegation_id), _worktree(delegation_id), patch)


def _record(
    delegation_id: str, patch: Patch | None, verification: Verification | None, failure: WorkFailed | None
) -> Receipt:
    return steps.record(_request(delegation_id), patch, verification, failure)


def _request(delegation_id: str) -> DelegationRequest:
    return steps.records().request(delegation_id)


def _worktree(delegation_id: str) -> Worktree:
    worktree = worktree_of(delegation_id)
    if worktree is None:
        raise WorkFailed("checkout", f"the record of {delegation_id!r} names no worktree: run the delegation again")
    return worktree


prepare = task(name="prepare", task_run_name="prepare", cache_policy=NO_CACHE, persist_result=False)(_prepare)

make_worktree = task(
    name="worktree",
    task_run_name="worktree",
    cache_key_fn=once_per_run("worktree"),
    persist_result=True,
    result_serializer="json",
)(_make_worktree)

work = task(
    name="agent",
    task_run_name="agent",
    cache_key_fn=once_per_run("agent"),
    persist_result=True,
    result_serializer="json",
    retries=MOST_SHORT_WAITS,
    retry_condition_fn=sits_out_short_cooldown,
)(_work)

collect = task(
    name="collect",
    task_run_name="collect",
    cache_key_fn=once_per_run("collect"),
    persist_result=True,
    result_serializer="json",
)(_collect)

collect_partial = task(name="collect", task_run_name="collect", cache_policy=NO_CACHE, persist_result=False)(_collect)
"""After a failed agent: a retry works on, so this patch must not be remembered as the result."""

verify = task(name="verify", task_run_name="verify", cache_policy=NO_CACHE, persist_result=False)(_verify)

record = task(
    name="record",
    task_run_name="record",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=60,
    retry_delay_seconds=10,
    retry_condition_fn=is_full_disk,
)(_record)
"""A full disk is waited for: without a receipt nobody hears what was done."""
