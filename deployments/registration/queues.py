"""Work pool, queues and limits in Prefect. All of it can be called again and again.

`ensure_bucket` is what a front door does at admission, too: it may not import this module, so here are the calls.

    GET   /v2/concurrency_limits/bucket:<b>          404 -> POST /v2/concurrency_limits/  {name, limit, active: true}
                                                     409 on that POST: somebody else was quicker, fine
    GET   /work_pools/delegations/queues/<b>-now     404 -> POST /work_pools/delegations/queues
                                                            {name, priority: 1, concurrency_limit: 2c + chain + 2}
    GET   /work_pools/delegations/queues/<b>-night   404 -> the same without priority (it goes behind all others)

The queues' names come from `delegation.records.labels.queue_name_of`, for both sides.

Only an explicit setting of the ceiling changes a limit that exists: PATCH the same paths.
"""

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from delegation.models.buckets import LIMIT_PREFIX
from deployments.configuration import WORK_POOL
from deployments.registration.buckets import Bucket
from deployments.rest import PrefectRest, Refused, Unreachable, pages

DEFAULT_QUEUE_LIMIT = 8  # runs started from the UI or a schedule, which name no bucket beforehand
_CONFLICT_TRIES = 5


def ensure_pool(rest: PrefectRest, base_job_template: dict[str, Any]) -> None:
    """The work pool, of type process, with a bounded default queue."""
    if rest.find(f"/work_pools/{WORK_POOL}") is None:
        body = {"name": WORK_POOL, "type": "process", "base_job_template": base_job_template}
        _create(rest, "/work_pools/", {**body, "description": "Flow runs of delegate-flows, one process each."})
        rest.call("PATCH", f"/work_pools/{WORK_POOL}/queues/default", {"concurrency_limit": DEFAULT_QUEUE_LIMIT})


def ensure_buckets(rest: PrefectRest, buckets: Iterable[Bucket]) -> None:
    for bucket in buckets:
        ensure_bucket(rest, bucket)


def ensure_bucket(rest: PrefectRest, bucket: Bucket) -> None:
    """Limit and both queues of one bucket. A limit that exists is changed only when the user set the ceiling."""
    path = f"/v2/concurrency_limits/{quote(bucket.limit_name)}"
    found = rest.find(path)
    if found is None:
        _create(rest, "/v2/concurrency_limits/", {"name": bucket.limit_name, "limit": bucket.ceiling, "active": True})
    elif bucket.explicit and found["limit"] != bucket.ceiling:
        rest.call("PATCH", path, {"limit": bucket.ceiling})
    now, night = bucket.queue_names
    _ensure_queue(rest, now, bucket, {"priority": 1})
    _ensure_queue(rest, night, bucket, {})


def bucket_limits(rest: PrefectRest) -> list[dict[str, Any]]:
    """The limits of all buckets, as the server has them, however many there are."""
    limits = pages(rest, "/v2/concurrency_limits/filter", {})
    return [limit for limit in limits if limit["name"].startswith(LIMIT_PREFIX)]


def _ensure_queue(rest: PrefectRest, name: str, bucket: Bucket, priority: dict[str, int]) -> None:
    path = f"/work_pools/{WORK_POOL}/queues/{quote(name)}"
    found = rest.find(path)
    if found is None:
        _create(
            rest, f"/work_pools/{WORK_POOL}/queues", {"name": name, "concurrency_limit": bucket.queue_limit, **priority}
        )
    elif bucket.explicit and found["concurrency_limit"] != bucket.queue_limit:
        rest.call("PATCH", path, {"concurrency_limit": bucket.queue_limit})


def _create(rest: PrefectRest, path: str, body: dict[str, Any]) -> None:
    """Create, or find that another did. Two creations at once may also meet as a server error: then look again."""
    for attempt in range(_CONFLICT_TRIES):
        try:
            rest.call("POST", path, body)
            return
        except Refused as refused:
            if refused.status == 409:
                return
            raise
        except Unreachable:
            if attempt == _CONFLICT_TRIES - 1:
                raise
            time.sleep(0.2 * (attempt + 1))
