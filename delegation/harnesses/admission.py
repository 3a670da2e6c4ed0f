"""Orders as callers give them, checked whole before anything starts, by the rules of the harness they are for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.errors import UsageError
from delegation.harnesses import codex_models, gemini
from delegation.harnesses.claude import EFFORTS as CLAUDE_EFFORTS
from delegation.harnesses.claude import check_endpoint
from delegation.harnesses.codex_login import auth_stopped
from delegation.harnesses.codex_quota import quota_warning
from delegation.harnesses.dsh_models import dsh_model
from delegation.harnesses.installed import is_installed
from delegation.harnesses.order import DEFAULT_SECONDS, DSH_SECONDS, LONGEST_SECONDS, HarnessName, Order
from delegation.harnesses.registry import harness_of
from delegation.harnesses.template import Template
from delegation.models.lanes import refuse_by_name
from delegation.request import Endpoint
from delegation.settings import Settings
from delegation.values import Value
from delegation.workdirs import check_workdir

UPLOADED = {
    "codex": "Codex is a cloud service: never give it patients' or other personal data",
    "gemini": "Gemini uploads files of the folder: no patients' or other personal data in the task or any file there",
    "dsh": "dsh with a cloud model takes code only, never real personal data",
}
_FIELDS: Mapping[HarnessName, frozenset[str]] = {
    "codex": frozenset(("task", "workdir", "model", "effort", "sandbox", "timeout_s", "allow_over_quota")),
    "gemini": frozenset(("task", "workdir", "effort", "timeout_s")),
    "dsh": frozenset(("task", "workdir", "model", "timeout_s")),
    "claude": frozenset(("task", "workdir", "effort", "timeout_s")),
    "command": frozenset(("task", "workdir", "model", "timeout_s")),
}


class Placed(Value):
    """One checked order with its task and the folder it is for."""

    task: str
    workdir: str
    order: Order


def program_problem(
    harness: HarnessName, settings: Settings, template: Template | None = None, called: str | None = None
) -> None:
    """Raises UsageError when the program is missing, or not let in since its login was refused. Starts nothing."""
    if not is_installed(harness, settings, template):
        problem = harness_of(harness, settings, template, called).probe().problem
        raise UsageError(problem or f"the program of {harness!r} is missing")
    if harness == "codex" and auth_stopped(settings):
        raise UsageError("auth_failed: Codex refused this login; run `codex login`, and it goes on by itself")


def checked_order(
    harness: HarnessName,
    task: Mapping[str, Any],
    settings: Settings,
    *,
    endpoint: Endpoint | None = None,
    template: Template | None = None,
) -> Placed:
    """One order, without looking for the program. `task` is an object of the fields that the harness knows (`task`,
    `workdir`, `model`, `effort`, `sandbox`, `timeout_s`, ...). Raises UsageError; nothing is written."""
    if unknown := sorted(set(task) - _FIELDS[harness]):
        raise UsageError(
            f"{harness} does not know {', '.join(map(repr, unknown))}; it knows {', '.join(sorted(_FIELDS[harness]))}"
        )
    text = task.get("task")
    if not isinstance(text, str) or not text.strip():
        raise UsageError("task is empty: say what is to be done")
    workdir = _workdir(task.get("workdir", "."), settings)
    check_workdir(workdir, settings)
    given = _RULES[harness](task, settings, endpoint)
    try:
        order = Order(
            harness=harness,
            timeout_seconds=_seconds(task.get("timeout_s"), DSH_SECONDS if harness == "dsh" else DEFAULT_SECONDS),
            template=template,
            **given,
        )
    except ValidationError as error:
        raise UsageError(f"the order is not valid: {error.errors()[0]['msg']}") from error
    return Placed(task=text, workdir=str(workdir.resolve()), order=order)


def _workdir(given: object, settings: Settings) -> Path:
    if not isinstance(given, str) or not given.strip():
        raise UsageError("workdir must be a folder's path")
    path = settings.path(given)
    if not path.is_dir():
        raise UsageError(f"workdir {given!r} is no folder")
    return path


def _seconds(given: object, usual: int) -> int:
    if given is None:
        return usual
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= LONGEST_SECONDS:
        raise UsageError(f"timeout_s={given!r}: must be a number of seconds from 1 to {LONGEST_SECONDS:,}")
    return int(given)


def _optional(task: Mapping[str, Any], name: str) -> str | None:
    value = task.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} must be text")
    return value


def _codex(task: Mapping[str, Any], settings: Settings, _: Endpoint | None) -> dict[str, Any]:
    model = codex_models.model_of(_optional(task, "model") or settings.codex_model)
    allowed = settings.codex_allow_danger
    over = quota_warning(settings, allow_over_quota=task.get("allow_over_quota") is True)
    return {
        "model": model,
        "effort": codex_models.effort_of(_optional(task, "effort")),
        "sandbox": codex_models.sandbox_of(_optional(task, "sandbox"), allow_danger=allowed),
        "warnings": (UPLOADED["codex"], *([over] if over else [])),
    }


def _gemini(task: Mapping[str, Any], settings: Settings, _: Endpoint | None) -> dict[str, Any]:
    if not settings.gemini_allow_danger:
        raise UsageError(
            "Gemini jobs are refused: agy runs with all permissions skipped and cannot ask; "
            "set DELEGATE_GEMINI_ALLOW_DANGER=1 where the server starts to allow it (the jail stays on)"
        )
    effort, model = gemini.model_for(_optional(task, "effort"))
    return {"model": model, "effort": effort, "idle_seconds": None, "warnings": (UPLOADED["gemini"],)}


def _dsh(task: Mapping[str, Any], settings: Settings, _: Endpoint | None) -> dict[str, Any]:
    model = _optional(task, "model")
    if model is None:
        raise UsageError("dsh needs a model")
    return {"model": dsh_model(model, settings), "idle_seconds": None, "warnings": (UPLOADED["dsh"],)}


def _claude(task: Mapping[str, Any], _: Settings, endpoint: Endpoint | None) -> dict[str, Any]:
    if endpoint is None:
        raise UsageError("agent 'claude' needs a model of the catalogue")
    refuse_by_name(endpoint.alias, endpoint.model)
    check_endpoint(endpoint)
    effort = _optional(task, "effort")
    if effort is not None and effort not in CLAUDE_EFFORTS:
        raise UsageError(f"effort {effort!r} is unknown: choose one of {', '.join(CLAUDE_EFFORTS)}")
    return {"model": endpoint.alias, "effort": effort}


def _command(task: Mapping[str, Any], _: Settings, __: Endpoint | None) -> dict[str, Any]:
    model = _optional(task, "model")
    if model is not None:
        refuse_by_name(model)
    return {"model": model}


_Rule = Callable[[Mapping[str, Any], Settings, Endpoint | None], dict[str, Any]]
_RULES: Mapping[HarnessName, _Rule] = {
    "codex": _codex,
    "gemini": _gemini,
    "dsh": _dsh,
    "claude": _claude,
    "command": _command,
}
