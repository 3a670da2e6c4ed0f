"""How a delegation is called in Prefect's UI: the name and the tags of its flow run."""

from pathlib import Path

from delegation.records.store import title_of
from delegation.request import DelegationRequest


def run_name_of(request: DelegationRequest) -> str:
    """What a person sees in the list of runs."""
    return f"{title_of(request.card.task)} · {request.id}"


def tags_of(request: DelegationRequest) -> tuple[str, ...]:
    """Repository, model, bucket and id."""
    return (
        f"repo:{Path(request.repo).name}",
        f"model:{request.endpoint.alias}",
        f"bucket:{request.endpoint.bucket}",
        request.id,
    )
