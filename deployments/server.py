"""The Prefect server: on loopback, behind a password, quiet; its UI asks nothing of the outside.

Why the older UI, and why a page of our own in it: docs/decisions/0005-ui.md.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from delegation.errors import StackError
from delegation.files import publish, text_or_none
from delegation.stack_state import OPEN_PAGE
from deployments.connection import Connection
from deployments.environment import python
from deployments.places import Places
from deployments.processes import Child, tail
from deployments.rest import PrefectRest, Unreachable

_START_SECONDS = 180
_LEASES_ON_DISK = "prefect.server.concurrency.lease_storage.filesystem"  # in memory, a restart leaks every held slot


# What the server looks for by the clock, most of it every 5 s: nothing of ours waits for any of it.
_SELDOM = {
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "30",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "60",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "30",
    "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "60",
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_LOOP_SECONDS": "60",
    "PREFECT_SERVER_SERVICES_FOREMAN_LOOP_SECONDS": "30",
    "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT60S",
}
# Three events tell of each task. One by one, writing them down was a sixth of the server's work for a delegation.
_TOGETHER = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "12",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",  # whole seconds: a half would be none
}


def server_child(places: Places, base: Mapping[str, str], connection: Connection, database_url: str) -> Child:
    """The server as a process to keep."""
    env = {
        **base,
        **connection.settings(places),
        **_SELDOM,
        **_TOGETHER,
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(connection.port),
        "PREFECT_SERVER_API_AUTH_STRING": connection.auth_string or "",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database_url,
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": _LEASES_ON_DISK,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": connection.ui_url,
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_UI_V2_ENABLED": "false",  # it starts a tracker in the reader's browser, whatever is set
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(places.ui),
    }
    argv = python("-m", "deployments.quiet_server", "--host", "127.0.0.1", "--port", str(connection.port))
    return Child("server", argv, env, places.logs / "server.log", places.stack)


def wait_for_server(rest: PrefectRest, child: Child | None, seconds: float = _START_SECONDS) -> None:
    """Returns once it answers with our password. Raises StackError with the end of its log."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            rest.version()
            return
        except Unreachable as error:
            if child is not None and not child.is_running():
                raise StackError(f"the Prefect server ended at once: {tail(child.log)}") from error
            if time.monotonic() > deadline:
                raise StackError(f"the Prefect server at {rest.api_url} does not answer: {error}") from error
        time.sleep(0.1)


def put_open_page(places: Places) -> None:
    """Lay our page among the UI's files, and lead the plain addresses of runs to it: Prefect's own log has those.

    To be called once the server answers: it may have copied the files just then.
    """
    folder = places.ui / "v1"
    if folder.is_dir():
        publish(folder / OPEN_PAGE, Path(__file__).with_name(OPEN_PAGE).read_text(encoding="utf-8"))
        _lead_to_open_page(folder / "index.html")


_DETOUR = f"""<script>
      if (/^\\/runs\\/(flow|task)-run\\//.test(location.pathname)) {{
        if (sessionStorage.getItem("delegate-asked") !== location.pathname)
          location.replace("/{OPEN_PAGE}?page=" + location.pathname);
        sessionStorage.removeItem("delegate-asked");
      }}
    </script>"""


def _lead_to_open_page(index: Path) -> None:
    text = text_or_none(index)
    if text and _DETOUR not in text:
        publish(index, text.replace("<head>", f"<head>\n    {_DETOUR}", 1))
