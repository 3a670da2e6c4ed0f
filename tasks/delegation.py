"""The steps of a delegation as Prefect tasks: name and persistence, and nothing of what a step does.

No task retries here: the chat layer retries short faults, and waiting for a cooldown belongs to the agent task.
"""

from prefect import task
from prefect.cache_policies import NO_CACHE

from delegation import steps
from tasks.agent import work_in_a_slot
from tasks.persistence import once_per_run

prepare = task(name="prepare", cache_policy=NO_CACHE, persist_result=False)(steps.prepare)

make_worktree = task(
    name="worktree", cache_key_fn=once_per_run("worktree"), persist_result=True, result_serializer="json"
)(steps.make_worktree)

work = task(name="agent", cache_key_fn=once_per_run("agent"), persist_result=True, result_serializer="json")(
    work_in_a_slot
)

collect = task(name="collect", cache_key_fn=once_per_run("collect"), persist_result=True, result_serializer="json")(
    steps.collect
)

collect_partial = task(name="collect", cache_policy=NO_CACHE, persist_result=False)(steps.collect)
"""After a failed agent: a retry works on, so this patch must not be remembered as the result."""

verify = task(name="verify", cache_policy=NO_CACHE, persist_result=False)(steps.verify)

record = task(name="record", cache_policy=NO_CACHE, persist_result=False)(steps.record)
