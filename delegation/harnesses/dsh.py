"""DeepSeek Harness through its launcher, which brings its own sandbox and terminal and reports in `result.json`.

Its change is not applied anywhere: it stays in the run's `out_dir` for somebody to review.
"""

import json
from pathlib import Path
from typing import Any

from delegation.errors import EndpointError
from delegation.files import text_or_none
from delegation.harnesses.harness import Command, Ended, Job, Probe, Progress, Said, Stream, usage_by_names
from delegation.harnesses.installed import program_path
from delegation.harnesses.order import HarnessName
from delegation.harnesses.sanitising import one_line
from delegation.harnesses.surroundings import environment_of, needed_program
from delegation.harnesses.words import spoken_failure
from delegation.settings import Settings

TERMINAL = ("HERDR*", "DSH*", "TMUX*", "TERM_PROGRAM", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables of the session that asks: its launcher opens a terminal there."""
_GOOD = ("done", "ok", "success", "completed", "passed")
_COUNTS = {
    "input_tokens": ("input_tokens", "input", "prompt", "in"),
    "output_tokens": ("output_tokens", "output", "completion", "out"),
    "cached_tokens": ("cached_tokens", "cached", "cache_read"),
}
_LONGEST_RESULT = 1024 * 1024


class Dsh:
    """See `Harness`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def name(self) -> HarnessName:
        return "dsh"

    def probe(self) -> Probe:
        program = program_path(self._settings.dsh_launcher, self._settings)
        problem = f"{self._settings.dsh_launcher!r} is not on PATH: name the launcher in DELEGATE_DSH_LAUNCHER"
        return Probe(program, problem=None if program else problem)

    def command(self, job: Job) -> Command:
        program = needed_program(self._settings.dsh_launcher, self._settings, job, "DELEGATE_DSH_LAUNCHER")
        home = {} if self._settings.user_home is None else {"HOME": str(self._settings.user_home)}
        words = (
            "--cwd",
            job.workdir,
            "--model",
            job.order.model or "",
            "--task-file",
            job.task_file,
            "--out-dir",
            job.out,
        )
        return Command(
            argv=(str(program), *map(str, words)),
            env=environment_of(job, self._settings, extra=home, passthrough=TERMINAL),
            confined_by="dsh launcher",
        )

    def reader(self, job: Job) -> "DshReader":
        return DshReader(job.out / "result.json")

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        """`result.json` decides; a launcher that left none has not worked, whatever its exit code."""
        if said.complete and said.problem is None and ended.exit_code == 0:
            return None
        if said.problem is not None:
            return spoken_failure("dsh", said.problem, otherwise="bad_request")
        if said.complete:
            return EndpointError("process", f"dsh ended with exit code {ended.exit_code}")
        last = ended.stderr.strip()[-300:] or ended.stdout.strip()[-300:]
        return spoken_failure(
            "dsh", f"no result.json was left (exit code {ended.exit_code}): {last}", otherwise="process"
        )


class DshReader:
    """Its terminal output is for people; what counts is the file."""

    def __init__(self, result: Path) -> None:
        self._result = result

    @property
    def busy(self) -> bool:
        """What it prints is up to its launcher, so silence means nothing."""
        return True

    def line(self, stream: Stream, text: str) -> Progress | None:  # noqa: ARG002  # the interface's
        return Progress("text", one_line(text)) if text.strip() else None

    def said(self) -> Said:
        result = _read(self._result)
        if result is None:
            return Said()
        summary, code = result.get("summary"), result.get("rc")
        code = code if isinstance(code, int) and not isinstance(code, bool) else None
        status = str(result.get("status") or "").lower()
        good = status in _GOOD or (not status and code == 0)
        return Said(
            answer=_answer(summary, result.get("diff_stat")),
            usage=usage_by_names(result.get("tokens"), _COUNTS),
            turns=1,
            last_command_exit=code,
            problem=None
            if good and not code
            else f"status {status or 'unknown'}, rc {code}: {summary or 'no summary'}",
            complete=True,
        )


def _read(path: Path) -> dict[str, Any] | None:
    """The result; None where there is none, it is a link or a pipe, or no JSON object."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_RESULT:
            return None
        found = json.loads(text_or_none(path) or "null", strict=False)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _answer(summary: Any, diff_stat: Any) -> str | None:
    parts = [str(part).strip() for part in (summary, diff_stat) if part]
    return "\n\n".join(part for part in parts if part) or None
