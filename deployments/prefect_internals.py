"""Names that Prefect does not promise and that our worker, flow processes and server lean on. Where one is missing,
what Prefect brings along runs instead, which does the same and costs more.

They are looked up in the source of the Prefect that is installed: importing it takes a second and a half.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from delegation.files import text_or_none


@dataclass(frozen=True)
class Leaning:
    """`names` are those that each module has to define; without one of them `instead` is so."""

    instead: str
    names: Mapping[str, tuple[str, ...]]


WORKER = Leaning(
    "`prefect worker start` starts the runs, by the clock",
    {
        "prefect.workers.base": (
            "setup", "client", "get_and_submit_flow_runs", "_get_scheduled_flow_runs", "_propose_submitting_state",
            "_give_worker_labels_to_flow_run", "_sync_and_initialize", "_emit_worker_started_event", "_started_event",
            "_related_objects", "_work_pool", "_work_pool_name", "_logger", "work_pool_name", "prefetch_seconds",
            "create_pool_if_not_found", "heartbeat_interval_seconds", "status_code", "identifier",
        ),
        "prefect.workers.process": (
            "ProcessWorker", "ProcessJobConfiguration", "ProcessWorkerResult", "working_dir", "stream_output",
        ),
        "prefect.runner._flow_run_executor": (
            "FlowRunExecutorContext", "create_executor", "resolve_flow", "propose_submitting", "control_channel",
            "process_manager", "submit", "status_code", "_handle_cancellation_observer_failure",
        ),
        "prefect.runner._process_manager": ("flow_run_ids", "kill"),
        "prefect.runner._starter_engine": (
            "EngineCommandStarter", "command", "cwd", "env", "stream_output", "control_channel",
        ),
        "prefect.events.clients": ("get_events_subscriber", "reconnection_attempts"),
        "prefect.events.schemas.events": ("prefect_object_id",),
        "prefect.events.filters": (
            "EventAnyResourceFilter", "EventFilter", "EventNameFilter", "EventResourceFilter",
        ),
        "prefect.flows": ("load_flow_from_flow_run",),
        "prefect.utilities.processutils": ("setup_signal_handlers_worker",),
        "prefect.utilities.services": ("critical_service_loop",),
    },
)  # fmt: skip
FLOW_PROCESS = Leaning(
    "each run does all that `python -m prefect.engine` does",
    {
        "prefect.flow_engine": ("observe_flow_run_suspension",),
        "prefect._flow_run_suspension": (
            "FlowRunSuspensionRequest", "mark_requested", "is_suspended_flow_run_state", "suspension_request",
        ),
        "prefect.events.related": ("RESOURCE_CACHE",),
        "prefect.types._datetime": ("now",),
        "prefect.client.orchestration": ("ssl",),
    },
)  # fmt: skip
SERVER = Leaning(
    "the server works as it comes, with more to do",
    {
        "prefect.server.api.background_workers": ("Worker",),
        "prefect.server.events.triggers": ("evaluate_periodically",),
        "prefect.server.utilities.database": ("Timestamp", "process_bind_param"),
        "prefect.utilities.schema_tools.validation": ("_VALIDATOR",),
        "docket.worker": ("minimum_check_interval", "scheduling_resolution"),
        "burner_redis.pubsub": ("PubSub", "_queue_get", "_queue"),
        "uvicorn.server": ("main_loop", "on_tick"),
    },
)


def problem(leaning: Leaning) -> str | None:
    """What is missing and what runs instead, in a sentence; None where all is there."""
    missing = [
        f"{module}.{name}" for module, names in leaning.names.items() for name in names if not _defines(module, name)
    ]
    return f"this Prefect has no {', no '.join(missing)}: {leaning.instead}" if missing else None


def problems() -> tuple[str, ...]:
    """Those of the whole stack."""
    return tuple(filter(None, map(problem, (WORKER, FLOW_PROCESS, SERVER))))


def _defines(module: str, name: str) -> bool:
    """As function, class, parameter, variable, attribute or import."""
    line = rf"\b(?:def|class) {name}\b|\b{name}\s*(?::|=(?!=))|\bimport\b.*\b{name}\b|^\s+{name},?$"
    return re.search(line, source_of(module), re.MULTILINE) is not None


def source_of(module: str) -> str:
    """Empty where there is no such module."""
    package, _, rest = module.partition(".")
    found = find_spec(package)
    folder = Path((found.submodule_search_locations or ["/nowhere"])[0]) if found else Path("/nowhere")
    file = folder.joinpath(*rest.split("."))
    for source in (file.with_suffix(".py"), file / "__init__.py"):
        if (text := text_or_none(source)) is not None:
            return text
    return ""
