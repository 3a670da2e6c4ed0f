"""run_bash: one shell command, both ends of what it printed, and its exit code in the last line."""

from collections.abc import Callable

from pydantic import Field

from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.text import head_and_tail
from delegation.process import Captured, Finished
from delegation.values import Value

Shell = Callable[[str, float], Finished]
"""Runs one command in the working folder, inside the walls the caller chose, for at most so many seconds."""

DESCRIPTION = (
    "Run a shell command in the working folder. There is no terminal and no input. Gives standard output, then "
    "standard error, each with its middle left out when long, and '[exit code: N]' as the last line. "
    "Background processes are ended when the command ends."
)
MAX_TIMEOUT_SECONDS = 1800
_STDOUT_CHARACTERS = 12_000
_STDERR_CHARACTERS = 4_000
_MARKER_CHARACTERS = 100
_ADVICE = "The output is gone: run it again narrower, with grep, head, tail, or into a file"


class Arguments(Value):
    """What run_bash takes."""

    command: str = Field(min_length=1, description="The command, as given to bash -c.")
    timeout_seconds: float | None = Field(
        None, gt=0, le=MAX_TIMEOUT_SECONDS, allow_inf_nan=False, description="Time for this command."
    )


def run(arguments: Arguments, shell: Shell, timeout_seconds: float) -> ToolAnswer:
    """What the command printed. A failing command is an answer, not an error of the tool."""
    finished = shell(arguments.command, timeout_seconds)
    parts = [_shown(finished.stdout, _STDOUT_CHARACTERS)]
    if finished.stderr.text.strip():
        parts.append(f"[standard error]\n{_shown(finished.stderr, _STDERR_CHARACTERS)}")
    if finished.signal_name:
        parts.append(f"[ended by {finished.signal_name}]")
    if finished.killed_processes and finished.exit_code is not None:
        parts.append(f"[background processes left: {finished.killed_processes}, ended]")
    parts.append(_ending(finished, timeout_seconds))
    return ToolAnswer(
        "\n".join(part for part in parts if part),
        ran_command=True,
        exit_code=finished.exit_code,
        about=f"run_bash {arguments.command[:200]!r} {_ending(finished, timeout_seconds)}",
    )


def _shown(captured: Captured, limit: int) -> str:
    """Both ends of what was printed. What was already cut while it ran only gets the advice."""
    if captured.truncated and len(captured.text) <= limit + _MARKER_CHARACTERS:
        return f"{captured.text.rstrip()}\n[{_ADVICE}]"
    return head_and_tail(captured.text, limit, _ADVICE).rstrip("\n")


def _ending(finished: Finished, timeout_seconds: float) -> str:
    if finished.cancelled:
        return "[no exit code: cancelled]"
    if finished.too_many_processes:
        return (
            f"[no exit code: ended: more than {finished.too_many_processes} processes at once, which is the limit; "
            "everything it had started was ended]"
        )
    if finished.timed_out:
        return f"[no exit code: stopped after {timeout_seconds:g} s with everything it had started]"
    if finished.exit_code is None:
        return (
            f"[no exit code: stopped because {'the disk was almost full' if finished.disk_full else 'it was killed'}]"
        )
    return f"[exit code: {finished.exit_code}]"
