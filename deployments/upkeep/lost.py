"""Writes the receipt of a lost delegation: `python -m deployments.upkeep.lost REASON`, its request on stdin.

Without a reason it is one that was cancelled while it had no process. A process of its own, so that the keeper stays
small and a record that cannot be read does not end it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from deployments.configuration import Configuration
from deployments.environment import python, stack_environment

_SECONDS, _NOTIFY_SECONDS = 60, 10


def write_lost_receipt(
    parameters: Mapping[str, Any], reason: str | None, *, configuration: Configuration
) -> str | None:
    """Without a reason it was cancelled. Gives what went wrong, or None when the receipt is written or the run was no
    delegation."""
    request = parameters.get("request")
    if not isinstance(request, dict):
        return None
    try:
        done = subprocess.run(
            python("-m", "deployments.upkeep.lost", *([reason] if reason else [])),
            input=json.dumps(request).encode(),
            env=stack_environment(configuration),
            cwd=configuration.home.stack,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no receipt within {_SECONDS} s"
    return done.stderr.decode(errors="replace").strip()[-500:] if done.returncode else None


def main() -> None:
    from delegation.notification.of_delegation import tell_end
    from delegation.request import DelegationRequest
    from delegation.settings import own_home
    from delegation.steps.record import record_cancelled, record_lost

    request = DelegationRequest.model_validate_json(sys.stdin.read())
    receipt = record_lost(request, sys.argv[1]) if len(sys.argv) > 1 else record_cancelled(request)
    tell_end(request, receipt, own_home(), at_most_seconds=_NOTIFY_SECONDS)


if __name__ == "__main__":
    main()
