"""Work that must come to its end although its client has gone: a submission between its record and its flow run."""

import threading
from collections.abc import Generator
from contextlib import contextmanager


class Pending:
    """Counts what is under way, in any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @contextmanager
    def one(self) -> Generator[None]:
        """While this is open, `wait` waits."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is under way, for so many seconds at most; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, seconds)
