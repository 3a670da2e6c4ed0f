"""The progress bar of the agent's turns on the run page: told in a thread of its own, so that no turn waits for it."""

import contextvars
import threading
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger

_BETWEEN_SECONDS = 1.0
_ENDING_SECONDS = 5.0


class ProgressBar:
    """Shows the newest of what it was told. A server that is away costs the bar, never the work."""

    def __init__(self) -> None:
        self._shown: tuple[float, str] | None = None
        self._newest: tuple[float, str] | None = None
        self._artifact: UUID | None = None
        self._changed, self._ended = threading.Event(), threading.Event()
        context = contextvars.copy_context()  # Prefect finds the run in it
        self._thread = threading.Thread(target=lambda: context.run(self._keep_showing), name="progress", daemon=True)
        self._thread.start()

    def tell(self, percent: float, description: str | None = None) -> None:
        """`description` stays until another is given."""
        self._newest = percent, description or (self._newest[1] if self._newest else "")
        self._changed.set()

    def end(self) -> None:
        self._ended.set()
        self._changed.set()
        self._thread.join(_ENDING_SECONDS)

    def _keep_showing(self) -> None:
        self._ended.wait(_BETWEEN_SECONDS)  # what is over in a moment is written once
        while True:
            self._changed.wait()
            self._changed.clear()
            last = self._ended.is_set()
            newest = self._newest
            if newest is not None and newest != self._shown:
                self._show(*newest)
            if last:
                return
            self._ended.wait(_BETWEEN_SECONDS)

    def _show(self, percent: float, description: str) -> None:
        try:
            if self._artifact is None:
                made = create_progress_artifact(percent, description=description)
                self._artifact = made if isinstance(made, UUID) else None  # sync, since no event loop runs
            else:
                update_progress_artifact(self._artifact, percent, description=description)
        except Exception as error:
            get_run_logger().warning("the progress bar could not be shown: %s", error)
            return
        self._shown = percent, description


@contextmanager
def progress_bar() -> Generator[ProgressBar]:
    bar = ProgressBar()
    try:
        yield bar
    finally:
        bar.end()
