"""Brings our tables up to date and registers what prefect.yaml names: `python -m deployments.registration.apply FILE`.

Run by the keeper. It sends the same fields as `prefect deploy --all`. A flow that cannot be imported is left out and
named: the others still run.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.exceptions import ObjectNotFound
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.workers.process import ProcessWorker

from delegation.errors import StackError
from delegation.shared_state import migrate
from deployments.configuration import Configuration, configuration
from deployments.environment import DATABASE_VARIABLE
from deployments.registration.queues import ensure_buckets, ensure_pool
from deployments.registration.registering import FLOWS_MISSING
from deployments.registration.rendering import deployments_in
from deployments.rest import PrefectRest
from deployments.server import wait_for_server


def main() -> None:
    """Exits with FLOWS_MISSING when a flow could not be imported, and so its deployment not registered."""
    file, here = Path(sys.argv[1]), configuration()
    if here.database_url is None:
        raise StackError(f"{DATABASE_VARIABLE} is not set")
    migrate(here.database_url)
    wanted = [(deployment, _flow(deployment)) for deployment in deployments_in(file)]
    template = ProcessWorker.get_default_base_job_template()
    with _rest(here) as rest:
        wait_for_server(rest, None)
        ensure_pool(rest, template)
        ensure_buckets(rest, here.buckets)
    for deployment, flow in wanted:
        if flow is not None:
            asyncio.run(register(deployment, flow))
            print(f"registered {flow.name}/{deployment['name']}")  # noqa: T201
    sys.exit(FLOWS_MISSING if any(flow is None for _, flow in wanted) else 0)


async def register(deployment: dict[str, Any], flow: Flow[..., Any]) -> None:
    """Create the deployment or bring it up to date. The schedules that users gave it stay: the server takes those away
    that are not sent along."""
    pool = deployment["work_pool"]
    async with get_client() as client:
        schedules = await _schedules(client, f"{flow.name}/{deployment['name']}")
        await client.create_deployment(
            flow_id=await client.create_flow_from_name(flow.name),
            name=deployment["name"],
            version=deployment.get("version"),
            description=deployment.get("description") or flow.description,
            tags=deployment.get("tags") or [],
            entrypoint=deployment["entrypoint"],
            parameters=deployment.get("parameters") or {},
            parameter_openapi_schema=parameter_schema(flow).model_dump(exclude_unset=True),
            enforce_parameter_schema=deployment.get("enforce_parameter_schema", True),
            pull_steps=deployment["pull"],
            work_pool_name=pool["name"],
            work_queue_name=pool.get("work_queue_name"),
            job_variables=pool.get("job_variables") or {},
            concurrency_limit=deployment.get("concurrency_limit"),
            schedules=schedules or None,
        )


async def _schedules(client: PrefectClient, name: str) -> list[DeploymentScheduleCreate]:
    """Those that the deployment has now, paused ones too."""
    try:
        found = await client.read_deployment_by_name(name)
    except ObjectNotFound:
        return []
    facts = set(DeploymentScheduleCreate.model_fields) - {"replaces"}
    return [
        DeploymentScheduleCreate.model_validate({fact: getattr(each, fact) for fact in facts})
        for each in found.schedules
    ]


def _flow(deployment: dict[str, Any]) -> Flow[..., Any] | None:
    try:
        return load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    except Exception as error:
        print(f"cannot import {deployment['entrypoint']}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return None


def _rest(here: Configuration) -> PrefectRest:
    """With the credentials that the keeper gave this process as Prefect settings."""
    if here.foreign is None:
        raise StackError("PREFECT_API_URL is not set")
    return PrefectRest(here.foreign.api_url, here.foreign.auth_string, here.foreign.api_key)


if __name__ == "__main__":
    main()
