"""What every verb needs: the settings wired once, options that mean the same everywhere, and the two ways to answer."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import BaseModel

from delegation.errors import UsageError
from mcp_entry.verbs.service import Service

AsJson = Annotated[
    bool,
    Parameter(
        name="--json", negative="", show_default=False, help="Print one JSON object on stdout and nothing else there."
    ),
]
Notify = Annotated[
    str | None,
    Parameter(
        show_default=False, help="Shell command that is run when it has ended; default the setting; '' for none."
    ),
]
Id = Annotated[
    str,
    Parameter(
        name="ID", help="An id, a unique beginning or ending (4 characters or more) of one, or a running number."
    ),
]
Patience = Annotated[float | None, Parameter(name="--timeout", help="Seconds to wait; then exit code 3.")]


def checked_patience(seconds: float | None) -> float | None:
    """The seconds that somebody is willing to wait. Raises UsageError for less than none, and for no number."""
    if seconds is not None and not seconds >= 0:  # not a number is none of both
        raise UsageError(f"--timeout {seconds:g}: must be 0 or more seconds")
    return seconds


def service(*, at_work: bool = False) -> Service:
    """The verbs, wired to this process's environment; what they say goes to stderr. Those about what was begun before
    work `at_work`: a mistake in `delegate.toml` is a warning to them."""
    from delegation.settings import load_settings, settings_at_work

    settings = settings_at_work() if at_work else load_settings()
    for warning in settings.warnings:
        say(f"warning: {warning}")
    return Service(settings, say)


def say(message: str) -> None:
    """One line for a person, on stderr."""
    sys.stderr.write(f"delegate: {message}\n")
    sys.stderr.flush()


def print_json(value: BaseModel | Mapping[str, Any]) -> None:
    """One object on one line of stdout."""
    text = value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value, default=str)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_line(text: str) -> None:
    """A result that is one plain line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
