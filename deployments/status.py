"""`status`: what runs, since when, and how full the buckets are."""

from typing import Any

from delegation.errors import StackError
from delegation.models.buckets import LIMIT_PREFIX
from delegation.stack_state import StackState, running_stack
from deployments.configuration import Configuration
from deployments.control import progress
from deployments.places import Places
from deployments.registration.queues import bucket_limits
from deployments.report import Report
from deployments.rest import PrefectRest


def status(configuration: Configuration) -> Report:
    """Raises StackNotRunning when nothing runs."""
    state = running_stack(configuration.home)
    report = progress(Places(configuration.home))
    answers, limits = _server(state)
    found = {
        "running": True,
        "answers": answers is None,
        "problem": answers,
        "ui_url": state.ui_url,
        "api_url": state.api_url,
        "version": state.version,
        "config_hash": state.config_hash,
        "up_to_date": state.config_hash == configuration.fingerprint(),
        "started_at": state.started_at.isoformat(),
        "keeper_pid": state.keeper.pid,
        "processes": report.get("processes", {}),
        "start_seconds": report.get("seconds", {}),
        "buckets": limits,
        "warnings": list(state.warnings),
    }
    return Report(0, found, _text(found))


def _server(state: StackState) -> tuple[str | None, list[dict[str, Any]]]:
    try:
        with PrefectRest(state.api_url, state.auth_string, state.api_key) as rest:
            buckets = bucket_limits(rest)
    except StackError as error:
        return str(error), []
    return None, [
        {"bucket": b["name"].removeprefix(LIMIT_PREFIX), "limit": b["limit"], "active": b["active_slots"]}
        for b in buckets
    ]


def _text(found: dict[str, Any]) -> str:
    lines = [f"running   {found['ui_url']}" + ("" if found["answers"] else f"  (does not answer: {found['problem']})")]
    lines += [
        f"version   {found['version']}" + ("" if found["up_to_date"] else "  (other code than here: `delegate up`)")
    ]
    lines += [f"since     {found['started_at']}"]
    for name, process in found["processes"].items():
        again = f", started again {process['restarts']} times" if process["restarts"] else ""
        lines.append(f"{name:9} pid {process['pid']}{again}")
    lines += [f"bucket    {bucket['bucket']}: {bucket['active']} of {bucket['limit']}" for bucket in found["buckets"]]
    return "\n".join([*lines, *(f"warning   {warning}" for warning in found["warnings"])])
