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
from delegation.failures import QueueReason
from delegation.harnesses.pools import LaunchPlace, Pool, launch_place_of, per_project_now
from delegation.request import DelegationRequest
from delegation.shared_state import SharedState, caps, projects
from delegation.shared_state.projects import Refused
from tasks.gate import Waiting
from tasks.held_slot import RENEW_SECONDS

_PAUSE_SECONDS = 0.5
_UNREACHABLE_SECONDS = 180.0


class LaunchCaps:
    """A context manager that waits until project and checkout have room, and holds both until its end. `tell` hears
    what it waits for. Raises WorkFailed('storage') where nobody can say what else is at work there."""

    def __init__(
        self,
        request: DelegationRequest,
        worktree: Worktree,
        pool: Pool,
        state: SharedState,
        tell: Callable[[Waiting | None], None],
    ) -> None:
        self._holder, self._pool, self._state, self._tell = request.id, pool, state, tell
        self._asked_at = request.created_at
        self._place = LaunchPlace(launch_place_of(Path(request.repo)).project, Path(worktree.root).resolve())
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep_renewing, name="launch caps", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self._leave()  # its place in line
            raise
        self._renewer.start()
        return self

    def wait_to_launch(self) -> None:
        """Called with a slot in hand, right before the program starts: launches of a kind keep apart, whoever waited
        for what before. Raises WorkFailed('storage')."""
        self._until(self._launch)
        self._tell(None)

    def _wait(self) -> None:
        self._until(self._enter)

    def _until(self, refusal: Callable[[], QueueReason | None]) -> None:
        begun = reached = time.monotonic()
        while True:
            try:
                reason = refusal()
                reached = time.monotonic()
                if reason is None:
                    return
                self._tell(Waiting(self._pool.bucket, reason, None, time.monotonic() - begun))
            except StackError as error:
                if time.monotonic() - reached > _UNREACHABLE_SECONDS:
                    raise WorkFailed("storage", f"nobody can say what else works there: {error}") from error
            time.sleep(_PAUSE_SECONDS * random.uniform(0.7, 1.0))

    def _launch(self) -> QueueReason | None:
        pool, now = self._pool, datetime.now(UTC)
        apart = pool.stagger_seconds
        free_at = projects.launch(self._state, kind=pool.bucket, holder=self._holder, stagger_seconds=apart, now=now)
        return None if free_at is None else "stagger"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewer.join(timeout=RENEW_SECONDS)
        self._leave()

    def _leave(self) -> None:
        try:
            projects.leave(self._state, self._holder, now=datetime.now(UTC))
        except StackError:
            return  # its lease ends by itself

    def _enter(self) -> QueueReason | None:
        now = datetime.now(UTC)
        cap = caps.of(self._state, self._pool.bucket)
        everywhere = caps.effective(cap, self._pool.ceiling, now, caps.rule_of(self._pool.bucket))
        found = projects.enter(
            self._state,
            kind=self._pool.bucket,
            project=str(self._place.project),
            checkout=str(self._place.checkout),
            holder=self._holder,
            per_project=per_project_now(self._pool, everywhere),
            now=now,
            asked_at=self._asked_at,
        )
        return found.reason if isinstance(found, Refused) else None

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                projects.renew(self._state, self._holder, now=datetime.now(UTC))
            except StackError:
                continue
