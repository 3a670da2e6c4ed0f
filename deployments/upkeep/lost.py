"""Writes the receipt of a delegation that has no process to do so: `python -m deployments.upkeep.lost REASON` of one
that is lost, `... KIND NAME MESSAGE` of one whose flow run ended in that state; its request on stdin.

A process of its own, so that the keeper stays small and a record that cannot be read does not end it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from delegation.errors import StackError
from delegation.files import is_full
from deployments.configuration import Configuration
from deployments.environment import python, stack_environment

_SECONDS, _NOTIFY_SECONDS = 60, 10
_LATER = 75  # the exit code of one that had no room to write, as programs of mail have it
_MESSAGE = 2_000


def write_lost_receipt(parameters: Mapping[str, Any], reason: str, *, configuration: Configuration) -> str | None:
    """Gives what went wrong, or None when the receipt is written or the run was no delegation. Raises StackError where
    it may be written later: the disk is full, or the machine too busy."""
    return _written(parameters, (reason,), configuration)


def write_receipt_of_end(
    parameters: Mapping[str, Any], state: Mapping[str, Any], *, configuration: Configuration
) -> str | None:
    """The same for a flow run that ended in this state of Prefect's. Raises as the other does."""
    words = (state["type"], state.get("name") or "", (state.get("message") or "")[:_MESSAGE])
    return _written(parameters, words, configuration)


def _written(parameters: Mapping[str, Any], words: Sequence[str], configuration: Configuration) -> str | None:
    request = parameters.get("request")
    if not isinstance(request, dict):
        return None
    try:
        done = subprocess.run(
            python("-m", "deployments.upkeep.lost", *words),
            input=json.dumps(request).encode(),
            env=stack_environment(configuration),
            cwd=configuration.home.stack,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"no receipt of {request.get('id')} within {_SECONDS} s: it is tried again") from error
    except OSError as error:
        raise StackError(f"no receipt of {request.get('id')}, it is tried again: {error}") from error
    if done.returncode == _LATER:
        raise StackError(f"no receipt of {request.get('id')}, it is tried again: {_last_words(done.stderr)}")
    return _last_words(done.stderr) if done.returncode else None


def _last_words(stderr: bytes) -> str:
    return stderr.decode(errors="replace").strip()[-500:]


def main() -> None:
    try:
        _close()
    except Exception as error:
        if is_full(error) or is_full(error.__cause__ or error):
            sys.stderr.write(f"{error}\n")
            sys.exit(_LATER)
        raise


def _close() -> None:
    from delegation.notification.of_delegation import tell_end
    from delegation.request import DelegationRequest
    from delegation.settings import own_home
    from delegation.steps.closing import close_ended
    from delegation.steps.record import record_lost

    request = DelegationRequest.model_validate_json(sys.stdin.read())
    match sys.argv[1:]:
        case [reason]:
            receipt = record_lost(request, reason)
        case [kind, name, message]:
            receipt = close_ended(request, kind, name or None, message or None)
        case words:
            raise SystemExit(f"REASON, or KIND NAME MESSAGE, not {words}")
    tell_end(request, receipt, own_home(), at_most_seconds=_NOTIFY_SECONDS)


if __name__ == "__main__":
    main()
