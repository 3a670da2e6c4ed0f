"""How a delegation is called in Prefect's UI: the name, the tags and the work queue of its flow run."""

from pathlib import Path

from delegation.models.buckets import limit_name_of
from delegation.records.store import title_of
from delegation.request import DelegationRequest

_TITLE_LENGTH = 48  # in the list of runs, tags and state stand on the same line


def run_name_of(request: DelegationRequest) -> str:
    """What a person sees in the list of runs: the title, and the ending of the id that `delegate show` takes."""
    title = title_of(request.card.task)
    short = title if len(title) <= _TITLE_LENGTH else f"{title[: _TITLE_LENGTH - 1].rstrip(' …')}…"
    return f"{short} · {request.id.rpartition('-')[2]}"


def tags_of(request: DelegationRequest) -> tuple[str, ...]:
    """Repository, model, bucket, id and what its card adds. The UI shows them by the alphabet."""
    return (
        f"repo:{Path(request.repo).name}",
        f"model:{request.endpoint.alias}",
        limit_name_of(request.endpoint.bucket),
        request.id,
        *request.labels,
    )


def short_commit(commit: str) -> str:
    """A commit as a person reads it."""
    return commit[:10]


def queue_name_of(bucket: str, queue: str) -> str:
    """The work queue of a bucket; `queue` is `now` or `night`. Bucket `local-` has `local-now`, not `local--now`."""
    return f"{bucket.rstrip('-')}-{queue}"
