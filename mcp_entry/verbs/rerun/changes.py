"""What a rerun may change, and where it may begin."""

from dataclasses import dataclass, replace
from typing import Literal

from delegation.errors import UsageError

RerunFrom = Literal["start", "agent", "verify"]


@dataclass(frozen=True)
class Changes:
    """What is other than in the first run; None is as it was. `prompt_add` is said after the task, or next."""

    model: str | None = None
    prompt_add: str | None = None
    base: str | None = None
    verify: str | None = None
    setup: str | None = None
    key: str | None = None

    def only(self, where: str, *allowed: str) -> None:
        """Raises UsageError naming one that is given and means nothing there."""
        rest = replace(self, **dict.fromkeys((*allowed, "key")))
        for name, value in vars(rest).items():
            if value is not None:
                raise UsageError(f"--{name.replace('_', '-')} changes nothing {where}: leave it out")

    def checked(self) -> "Changes":
        """Raises UsageError for an empty one, which would mean nothing or something else."""
        for name in ("prompt_add", "base", "verify", "setup"):
            value: str | None = getattr(self, name)
            if value is not None and (not value.strip() or "\0" in value):
                raise UsageError(f"--{name.replace('_', '-')} is empty: give a text, or leave it out")
        return self
