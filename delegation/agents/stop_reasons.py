"""Why a run ends. A stop unwinds the loop and carries what is recorded about it, so the loop has one way out."""

from delegation.errors import FailureKind, WorkFailed
from delegation.receipt import StopReason


class Stop(Exception):
    """The end of a run. `failure` is None where the model finished by itself or was cancelled."""

    def __init__(self, reason: StopReason, *, failure: WorkFailed | None = None, text: str | None = None) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason
        self.failure = failure
        self.text = text


class Finished(Stop):
    """The model stopped calling tools and said its last word. `nudge_reply` is what it added when asked once more."""

    def __init__(self, reason: StopReason, text: str, nudge_reply: str | None) -> None:
        super().__init__(reason, text=text)
        self.nudge_reply = nudge_reply


class LimitReached(Stop):
    """A bound of the run: turns, time, budget, or going in circles."""

    def __init__(self, kind: StopReason, message: str) -> None:
        super().__init__(kind, failure=WorkFailed(_KIND[kind], message))


class Broken(Stop):
    """The endpoint, the storage or the confinement failed."""

    def __init__(self, failure: WorkFailed) -> None:
        super().__init__("failed", failure=failure)


class CancelRequested(Stop):
    """Someone asked for the end."""

    def __init__(self) -> None:
        super().__init__("cancelled")


_KIND: dict[StopReason, FailureKind] = {
    "turn_limit": "turn_limit",
    "time_limit": "time_limit",
    "budget": "budget",
    "repetition": "repetition",
}
