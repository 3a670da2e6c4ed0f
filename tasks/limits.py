"""The concurrency limits of pools, made where they are missing; one that is there is somebody's setting and stays."""

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

from delegation.models.buckets import limit_name_of
from delegation.request import DelegationRequest
from delegation.settings import settings_at_work
from delegation.submitting import slots_of


def ensure_limits(request: DelegationRequest) -> None:
    """Those of every model that may get the work: a run from the UI's form passed no front door that makes them."""
    settings = settings_at_work()
    with get_client(sync_client=True) as client:
        for endpoint in (request.endpoint, *request.chain):
            ensure_limit(client, endpoint.bucket, slots_of(settings, endpoint.bucket))


def ensure_limit(client: SyncPrefectClient, bucket: str, slots: int) -> None:
    name = limit_name_of(bucket)
    try:
        client.read_global_concurrency_limit_by_name(name)
    except ObjectNotFound:
        try:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=slots))
        except PrefectHTTPStatusError:
            client.read_global_concurrency_limit_by_name(name)  # somebody else was quicker
