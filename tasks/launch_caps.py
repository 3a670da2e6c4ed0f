"""What a command-line agent waits for: its project has room, its checkout is free, and launches keep apart."""

import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from delegation.checkout.worktree import Worktree
from delegation.errors import StackError, WorkFailed
from delegation.harnesses.pools import LaunchPlace, Pool, launch_place_of
from delegation.request import DelegationRequest
from delegation.shared_state import SharedState, projects
from delegation.shared_state.projects import Refused
from tasks.gate import Waiting
from tasks.held_slot import RENEW_SECONDS

_PAUSE_SECONDS = 0.5
_UNREACHABLE_SECONDS = 180.0


class LaunchCaps:
    """A context manager that waits until the program may start, and holds that until its end. `tell`
    hears what it waits for. Raises WorkFailed('storage') where nobody can say what else is at work there."""

    def __init__(
        self,
        request: DelegationRequest,
        worktree: Worktree,
        pool: Pool,
        state: SharedState,
        tell: Callable[[Waiting | None], None],
    ) -> None:
        self._holder, self._pool, self._state, self._tell = request.id, pool, state, tell
        self._place = LaunchPlace(launch_place_of(Path(request.repo)).project, Path(worktree.root).resolve())
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep_renewing, name="launch caps", daemon=True)

    def __enter__(self) -> Self:
        begun = reached = time.monotonic()
        while True:
            try:
                refused = self._enter()
                reached = time.monotonic()
                if refused is None:
                    break
                self._tell(Waiting(self._pool.bucket, refused.reason, None, time.monotonic() - begun))
            except StackError as error:
                if time.monotonic() - reached > _UNREACHABLE_SECONDS:
                    raise WorkFailed("storage", f"nobody can say what else works there: {error}") from error
            time.sleep(_PAUSE_SECONDS * random.uniform(0.7, 1.0))
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewer.join(timeout=RENEW_SECONDS)
        try:
            projects.leave(self._state, self._holder, now=datetime.now(UTC))
        except StackError:
            return  # its lease ends by itself

    def _enter(self) -> Refused | None:
        found = projects.enter(
            self._state,
            kind=self._pool.bucket,
            project=str(self._place.project),
            checkout=str(self._place.checkout),
            holder=self._holder,
            per_project=self._pool.per_project,
            stagger_seconds=self._pool.stagger_seconds,
            now=datetime.now(UTC),
        )
        return found if isinstance(found, Refused) else None

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                projects.renew(self._state, self._holder, now=datetime.now(UTC))
            except StackError:
                continue
