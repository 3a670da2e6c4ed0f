"""All processes of one stack: started in order, kept alive, ended in the opposite order."""

import json
import os
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from delegation.files import publish
from delegation.processes.identity import ProcessId, process_id
from delegation.stack_state import StackState, state_file, write_state
from deployments.configuration import WORK_POOL, Configuration, keeper_fingerprint, program_version
from deployments.connection import Connection, check_foreign, connection_of
from deployments.database.choice import Database, choose_database
from deployments.environment import python, stack_environment
from deployments.kept import Kept
from deployments.places import Places
from deployments.prefect_internals import problems
from deployments.processes import Child, adopt_orphans, descendants, end_all, marked
from deployments.registration.registering import Registration
from deployments.registration.rendering import render
from deployments.server import put_open_page, server_child, wait_for_server
from deployments.worker import launcher_command, launcher_socket, wait_for_worker, worker_child

_GRACE_SECONDS = 8.0


class Stack:
    """Database, server, launcher and worker. The keeper owns the only one of a home."""

    database: Database  # these four: from `start` on
    connection: Connection
    _runtime: Path
    _fingerprint: str

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.places = Places(configuration.home)
        self.children: dict[str, Child] = {}
        self._kept = Kept(self.places)
        self._base = stack_environment(configuration)
        self._me = process_id(os.getpid()) or ProcessId(pid=os.getpid(), started=0.0)
        self._keeper_hash = keeper_fingerprint()
        self._started_at = datetime.now(UTC)
        self._phases: dict[str, float] = {}
        self.warnings: tuple[str, ...] = ()

    def start(self) -> None:
        """Returns when everything answers. Raises StackError with the reason; `end` has to be called in any case."""
        adopt_orphans()
        self._enter("what the last stack left")
        end_all(marked(self.places.token), grace_seconds=_GRACE_SECONDS)
        self._enter("database")
        self._runtime = self.places.runtime()
        self.database = choose_database(self.configuration, self.places, self._kept)
        self._start_database()
        self._enter("server")
        self.connection = connection_of(self.configuration, self._kept)
        self._start_server()
        if self.configuration.launcher:
            self._start_launcher()
        registration = self._begin_registration()
        with self.connection.rest() as rest:
            wait_for_server(rest, self.children.get("server"))
        put_open_page(self.places)
        self._enter("deployments")
        self._finish(registration)
        self._enter("worker")
        self._start_worker()
        self._publish()
        self._enter("ready")

    def keep(self) -> list[str]:
        """Start again what died, as far as its backoff allows. Returns a line for each."""
        again = [child for child in self.children.values() if child.keep()]
        if again:
            self.report()
        return [f"started {child.name} again (pid {child.pid}, {child.restarts} times so far)" for child in again]

    def lacks_a_process(self) -> bool:
        """Whether one is down: `keep` starts it again as soon as its backoff allows."""
        return not all(child.is_running() for child in self.children.values())

    def take_new_code(self, configuration: Configuration) -> None:
        """Register it, and start launcher and worker anew. To be called only while no flow process runs."""
        self.configuration = configuration
        self._finish(self._begin_registration())
        for name in ("worker", "launcher"):
            if name in self.children:
                self.children[name].stop()
        if "launcher" in self.children:
            self.children["launcher"].start()
        self._start_worker()
        self._publish()
        self.report()

    def end(self) -> None:
        """End everything: the worker first, so that it does not report our own ending as crashes of its runs."""
        state_file(self.configuration.home).unlink(missing_ok=True)
        with suppress(OSError):  # a full disk keeps nothing running
            self._enter("ending")
        worker = self.children.pop("worker", None)
        if worker is not None:
            worker.kill()
        self._end_flow_runs()
        for name in ("launcher", "server", "database"):
            if name in self.children:
                self.children.pop(name).stop()
        end_all(marked(self.places.token))
        self.places.progress.unlink(missing_ok=True)

    def report(self) -> None:
        """For the `up` that waits, and for `status`."""
        processes = {name: {"pid": child.pid, "restarts": child.restarts} for name, child in self.children.items()}
        report = {
            "keeper": self._me.model_dump(),
            "phase": next(reversed(self._phases)),
            "seconds": _durations(self._phases),
            "processes": processes,
        }
        publish(self.places.progress, json.dumps(report, indent=1))

    def _start_database(self) -> None:
        cluster = self.database.cluster
        if cluster is not None:
            cluster.prepare(self._base)
            self._add(cluster.child(self._base))
            cluster.wait_until_ready(self.children["database"])

    def _start_server(self) -> None:
        if self.connection.port is None:
            check_foreign(self.connection)
            return
        self._add(server_child(self.places, self._base, self.connection, self.database.prefect_url))
        self._kept.set("server_port", self.connection.port)

    def _start_launcher(self) -> None:
        argv = python("-m", "deployments.launcher.parent", str(launcher_socket(self._runtime)), str(self.places.runs))
        few_arenas = {"MALLOC_ARENA_MAX": "2"}  # each thread of a flow process would begin one of its own
        env = {**self._base, **self.connection.settings(self.places), **few_arenas}
        self._add(Child("launcher", argv, env, self.places.logs / "launcher.log", self.places.stack))

    def _begin_registration(self) -> Registration:
        self._fingerprint = self.configuration.fingerprint()
        render(self.places.rendered, launcher_command(self.places, self._runtime), self._fingerprint)
        registration = Registration(self.places, self._kept, self.configuration)
        registration.begin(self.connection, self.database, self._fingerprint)
        return registration

    def _finish(self, registration: Registration) -> None:
        warning = registration.finish()
        self.warnings = (*self.database.warnings, *([warning] if warning else []), *problems())

    def _start_worker(self) -> None:
        since = datetime.now(UTC)
        self._add(worker_child(self.places, self._base, self.connection.settings(self.places)))
        with self.connection.rest() as rest:
            wait_for_worker(rest, self.places, self.children["worker"], since)

    def _end_flow_runs(self) -> None:
        """While the server answers, so that they can say how they ended; the next `up` takes them up again."""
        serving = {child.pid for child in self.children.values()}
        database = self.children.get("database")
        if database is not None and database.pid is not None:
            serving |= {process.pid for process in descendants(database.pid)}
        own_ones = [process for process in marked(self.places.token) if process.pid not in serving]
        end_all(own_ones, grace_seconds=_GRACE_SECONDS)

    def _publish(self) -> None:
        state = StackState(
            version=program_version(),
            config_hash=self._fingerprint,
            settings_hash=self.configuration.settings_hash(),
            keeper_hash=self._keeper_hash,
            keeper=self._me,
            api_url=self.connection.api_url,
            auth_string=self.connection.auth_string,
            api_key=self.connection.api_key,
            ui_url=self.connection.ui_url,
            database_url=self.database.url,
            prefect_home=str(self.places.prefect_home),
            work_pool=WORK_POOL,
            launcher_socket=str(launcher_socket(self._runtime)),
            launcher_command=tuple(launcher_command(self.places, self._runtime)),
            mark=self.places.token,
            flow_settings=self.connection.settings(self.places),
            foreign_server=self.connection.foreign,
            warnings=self.warnings,
            started_at=self._started_at,
        )
        write_state(self.configuration.home, state)

    def _add(self, child: Child) -> None:
        child.start()
        self.children[child.name] = child
        self.report()

    def _enter(self, phase: str) -> None:
        self._phases[phase] = time.monotonic()
        self.report()


def _durations(phases: dict[str, float]) -> dict[str, float]:
    """Seconds that each phase took; the last one has just begun."""
    moments = list(phases.values())
    return {name: round(end - begin, 2) for name, begin, end in zip(phases, moments, moments[1:], strict=False)}


def ignore_signals() -> None:
    """While everything is being ended, a second request changes nothing."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
