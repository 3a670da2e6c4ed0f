"""Any program as an agent: called by a template, judged by its exit code and by what it says."""

import json
from pathlib import Path
from typing import Any

from delegation.confinement import find_confiner
from delegation.errors import EndpointError, WorkFailed
from delegation.harnesses.harness import Command, Ended, Job, Probe, Progress, Said, Stream, usage_by_names, word_in
from delegation.harnesses.installed import program_path
from delegation.harnesses.order import HarnessName
from delegation.harnesses.sanitising import one_line
from delegation.harnesses.surroundings import environment_of, needed_program, walls_of
from delegation.harnesses.template import Template
from delegation.harnesses.words import kind_in, spoken_failure
from delegation.models.config_file import where
from delegation.settings import Settings

MOST_CHARACTERS = 1024 * 1024
_ANSWERS = ("response", "result", "answer", "output", "text", "message")
_NO_ANSWER = f"its JSON object has no answer: a text under one of the keys {', '.join(map(repr, _ANSWERS))}"
_COUNTS = {"input_tokens": ("input_tokens", "prompt_tokens"), "output_tokens": ("output_tokens", "completion_tokens")}
_BAD = ("error", "failed", "failure", "cancelled", "canceled")


class OwnCommand:
    """See `Harness`. `called` is the agent's name, which is that of its table."""

    def __init__(self, settings: Settings, template: Template | None = None, called: str | None = None) -> None:
        self._settings = settings
        self._template = template
        self._called = called

    @property
    def name(self) -> HarnessName:
        return "command"

    def probe(self) -> Probe:
        if self._template is None:
            return Probe(None, problem="no command is configured: add a [commands.<name>] table to delegate.toml")
        program = program_path(self._template.argv[0], self._settings)
        missing = f"{self._template.argv[0]!r} is not on PATH"
        if self._called is not None:
            missing = f"{missing}: {remedy_of_missing(self._called, self._settings)}"
        return Probe(program, problem=None if program else missing)

    def command(self, job: Job) -> Command:
        """Raises WorkFailed: no template, no program, or no walls where they are required."""
        template = _template(job)
        filled = template.filled(
            task_file=str(job.task_file),
            workdir=str(job.workdir),
            output_file=str(job.out / "answer.txt"),
            model=job.order.model or "",
            out_dir=str(job.out),
        )
        program = needed_program(filled[0], self._settings, job, "the table's argv")
        env = environment_of(job, self._settings, extra=template.environment, passthrough=template.passthrough)
        confiner = find_confiner(job.confinement) if template.confined else None
        return Command(
            argv=(str(program), *filled[1:]),
            env=env,
            stdin=job.task if template.stdin == "task" else None,
            confiner=confiner,
            walls=walls_of(job, self._settings, env, readable=(program.resolve(),), network=job.network),
            confined_by=confiner.name if confiner else None,
        )

    def reader(self, job: Job) -> "CommandReader":
        return CommandReader(job, _template(job))

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        """An exit code of its own list, and an answer or at least no word of a limit: such programs end with 0 as well
        when no model answered."""
        good = ended.exit_code in (self._template.ok_exit_codes if self._template else (0,))
        if good and said.problem is None:
            return None
        if ended.signal_name is not None and said.problem is None:
            return EndpointError("process", f"it was ended by {ended.signal_name}")
        last = said.problem or ended.stderr.strip()[-500:] or "no reason was given"
        words = last if good else f"exit code {ended.exit_code}: {last}"
        kind = kind_in(last) if not good or said.problem else None
        named = self._called or self.name
        return spoken_failure(named, words, otherwise="empty_answer" if good else "process", kind=kind)


def remedy_of_missing(name: str, settings: Settings) -> str:
    """What to do about the program of `[commands.<name>]`, with the file and the line."""
    return f"install it, or change argv in {where(settings.home.config_file, ('commands', name, 'argv')).rstrip(':')}"


def _template(job: Job) -> Template:
    if job.order.template is None:
        raise WorkFailed("config", "no command is configured: add a [commands.<name>] table to delegate.toml")
    return job.order.template


class CommandReader:
    """Keeps what it prints, bounded."""

    def __init__(self, job: Job, template: Template) -> None:
        self._job = job
        self._template = template
        self._kept: dict[Stream, list[str]] = {"stdout": [], "stderr": []}
        self._characters: dict[Stream, int] = {"stdout": 0, "stderr": 0}

    @property
    def busy(self) -> bool:
        return False

    def line(self, stream: Stream, text: str) -> Progress | None:
        if (room := MOST_CHARACTERS - self._characters[stream]) > 0:
            self._kept[stream].append(text[:room])
        self._characters[stream] += len(text) + 1
        return Progress("text", one_line(text)) if stream == "stdout" and text.strip() else None

    def said(self) -> Said:
        stdout, stderr = ("\n".join(self._kept[stream]).strip() for stream in ("stdout", "stderr"))
        match self._template.output:
            case "json":
                return _from_json(stdout, stderr)
            case "file":
                return self._from_text(_left_in(self._job.out / "answer.txt").strip(), stderr)
            case "stdout":
                return self._from_text(stdout, stderr)

    def _from_text(self, answer: str, stderr: str) -> Said:
        """Nothing at all is no answer. Where none is needed, only a word of a limit or a login counts against it."""
        if answer or not (self._job.needs_answer or kind_in(stderr[-500:])):
            return Said(answer=answer or None, complete=True)
        return Said(problem=stderr[-500:] or "it printed nothing")


def _left_in(path: Path) -> str:
    """The beginning of what it wrote there; nothing of a link, which may lead to what it cannot read itself, nor of a
    pipe, which nobody ends."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(MOST_CHARACTERS).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _from_json(stdout: str, stderr: str) -> Said:
    result = _object(stdout)
    if result is None:
        return Said(problem=stderr[-500:] or ("its answer is no whole JSON object" if stdout else "it printed nothing"))
    answer = next(
        (result[name] for name in _ANSWERS if isinstance(result.get(name), str) and result[name].strip()), None
    )
    return Said(
        answer=answer,
        session_id=word_in(result.get("session_id")) or word_in(result.get("conversation_id")),
        usage=usage_by_names(result.get("usage"), _COUNTS),
        turns=1,
        problem=_problem(result, answer, stderr),
        complete=True,
    )


def _object(text: str) -> dict[str, Any] | None:
    for candidate in (text, text.rpartition("\n")[2]):
        try:
            found = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def _problem(result: dict[str, Any], answer: str | None, stderr: str) -> str | None:
    error, status = result.get("error"), str(result.get("status") or "").lower()
    if error:
        return error if isinstance(error, str) else json.dumps(error)
    if status in _BAD or result.get("is_error") is True:
        return f"status {status or 'error'}: {answer or stderr[-500:] or 'no reason'}"
    return None if answer else stderr[-500:] or _NO_ANSWER
