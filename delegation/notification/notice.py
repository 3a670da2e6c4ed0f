"""What is told, to which command, and how that went."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from delegation.values import Value

if TYPE_CHECKING:
    from delegation.settings import Settings


class Hook(Value):
    """A shell line, how long it may take, and the PATH of whoever asked for it."""

    command: str = Field(min_length=1)
    seconds: float = Field(gt=0)
    search_path: str | None = None


class Notice(Value):
    """What every notification says. `report` is a file to open; null where there is none."""

    kind: Literal["delegation", "night", "comparison"]
    id: str
    title: str
    summary: str = Field(description="One sentence.")
    report: str | None
    ui_url: str | None


class Heard(Value):
    """How the command ended. `problem` is null when it exited with 0."""

    command: str
    at: datetime
    seconds: float
    exit_code: int | None
    problem: str | None
    output: str


def hook_of(given: str | None, settings: "Settings") -> Hook | None:
    """The command to run: the one that was given, else the setting's; an empty one is none."""
    command = settings.notify if given is None else given
    if command is None or not command.strip():
        return None
    return Hook(command=command, seconds=settings.notify_seconds, search_path=settings.environ.get("PATH"))
