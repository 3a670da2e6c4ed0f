"""Our tables, deployments, queues and limits, registered by a process of its own that may import Prefect.

It begins beside the server's start and waits for it. Nothing is done when nothing changed since the last time.
"""

import re
import subprocess

from delegation.errors import StackError
from delegation.stack_state import FLOWS_MISSING as NOT_IMPORTED
from deployments.configuration import Configuration
from deployments.connection import Connection
from deployments.database.choice import Database
from deployments.environment import DATABASE_VARIABLE, python, stack_environment
from deployments.kept import Kept
from deployments.places import Places
from deployments.processes import open_log, tail

FLOWS_MISSING = 10  # exit code of deployments.registration.apply
_SECONDS = 120.0
_REFUSED = re.compile(r"^cannot import \S+:(\w+): (.+)$", re.MULTILINE)


class Registration:
    """One run of `deployments.registration.apply`, or none where it is not needed."""

    def __init__(self, places: Places, kept: Kept, configuration: Configuration) -> None:
        self._log = places.logs / "apply.log"
        self._places = places
        self._kept = kept
        self._configuration = configuration
        self._process: subprocess.Popen[bytes] | None = None
        self._identity = ""
        self._log_begins = 0

    def begin(self, connection: Connection, database: Database, fingerprint: str) -> None:
        """Start it, unless the same code and buckets were registered in the same database before."""
        buckets = repr(self._configuration.buckets)
        self._identity = f"{fingerprint} {connection.api_url} {database.prefect_url} {buckets}"
        if self._kept.get("registered") == self._identity:
            return
        base = stack_environment(self._configuration)
        env = {**base, **connection.settings(self._places), DATABASE_VARIABLE: database.url}
        self._log_begins = self._log.stat().st_size if self._log.exists() else 0
        with open_log(self._log) as log:
            self._process = subprocess.Popen(
                python("-m", "deployments.registration.apply", str(self._places.rendered)),
                env={**env, **self._configuration.ceiling_variables},
                cwd=self._places.stack,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self) -> str | None:
        """Wait for it. Returns a warning when a flow could not be imported; raises StackError for anything else."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            raise StackError(f"registering took over {_SECONDS:.0f} s: see {str(self._log)!r}") from error
        if code == 0:
            self._kept.set("registered", self._identity)
        elif code != FLOWS_MISSING:
            raise StackError(f"registering the deployments failed: {tail(self._log)}")
        return missing_flows(self._log.read_bytes()[self._log_begins :].decode(errors="replace")) if code else None


def missing_flows(log: str) -> str:
    """Which flows could not be imported and why, out of what `apply` printed."""
    flows: dict[str, list[str]] = {}
    for name, reason in _REFUSED.findall(log):
        flows.setdefault(reason, []).append(name)
    told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in flows.items())
    return f"{NOT_IMPORTED}: {told or 'see apply.log'}. Mend that, then `delegate down` and `delegate up`"
