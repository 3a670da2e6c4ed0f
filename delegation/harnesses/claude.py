"""Claude Code, headless, against any endpoint of Anthropic's format, in our walls and without the user's setup."""

import os

from delegation.confinement import find_confiner
from delegation.errors import EndpointError, UsageError, WorkFailed
from delegation.harnesses.claude_events import ClaudeReader
from delegation.harnesses.harness import Command, Ended, Job, Probe, Said
from delegation.harnesses.installed import program_path
from delegation.harnesses.order import HarnessName
from delegation.harnesses.surroundings import environment_of, home_of, needed_program, walls_of
from delegation.harnesses.versions import version_of
from delegation.harnesses.words import spoken_failure
from delegation.models.addresses import checked_url
from delegation.request import Endpoint
from delegation.settings import Settings

EFFORTS = ("low", "medium", "high", "xhigh", "max")
_PROGRAM = "claude"
_NETWORK = "Claude Code and its commands share one network: it is on, because the model is asked over it"
_RETRIES = 2  # of its own; ours come after
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": str(_RETRIES),
}


class Claude:
    """See `Harness`. The program is `claude` on PATH, or what `program` names."""

    def __init__(self, settings: Settings, program: str = _PROGRAM) -> None:
        self._settings = settings
        self._program = program

    @property
    def name(self) -> HarnessName:
        return "claude"

    def probe(self) -> Probe:
        program = program_path(self._program, self._settings)
        if program is None:
            return Probe(
                None, problem="Claude Code is not on PATH: install it (npm install -g @anthropic-ai/claude-code)"
            )
        return Probe(program, version_of(program, self._settings), "ok")

    def command(self, job: Job) -> Command:
        """Raises WorkFailed: no program, no endpoint of its format, or no walls where they are required."""
        endpoint = _endpoint(job)
        program = needed_program(self._program, self._settings, job, "PATH").resolve()
        env = environment_of(job, self._settings, extra=_variables(job, endpoint))
        confiner = find_confiner(job.confinement)
        return Command(
            argv=(str(program), *_arguments(job, endpoint)),
            env=env,
            stdin=job.task,
            confiner=confiner,
            walls=walls_of(job, self._settings, env, readable=(program,)),
            confined_by=confiner.name if confiner else None,
            endpoints=(_place(endpoint),),
            warnings=() if job.network else (_NETWORK,),
        )

    def reader(self, job: Job) -> ClaudeReader:  # noqa: ARG002  # the interface's
        return ClaudeReader()

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        if ended.exit_code == 0 and said.complete and said.problem is None:
            return None if said.answer else EndpointError("empty_answer", "claude ended well and said nothing")
        if said.problem is not None:
            return spoken_failure("claude", said.problem, otherwise="bad_request" if said.complete else "process")
        if ended.signal_name is not None:
            return EndpointError("process", f"claude was ended by {ended.signal_name}")
        last = ended.stderr.strip()[-300:] or "it printed no result"
        return spoken_failure("claude", f"exit code {ended.exit_code}: {last}", otherwise="process")


def check_endpoint(endpoint: Endpoint) -> None:
    """Raises UsageError for an endpoint that Claude Code cannot speak to."""
    if endpoint.format != "anthropic_messages":
        raise UsageError(
            f"agent 'claude' needs a model with format = 'anthropic'; {endpoint.alias!r} speaks {endpoint.format!r}"
        )


def _endpoint(job: Job) -> Endpoint:
    if job.endpoint is None:
        raise WorkFailed("config", "agent 'claude' needs a model of the catalogue")
    try:
        check_endpoint(job.endpoint)
        checked_url(job.endpoint.base_url, "the endpoint's address")
    except UsageError as error:
        raise WorkFailed("config", str(error)) from error
    return job.endpoint


def _place(endpoint: Endpoint) -> str:
    return "/".join(endpoint.base_url.split("/")[:3])


def _variables(job: Job, endpoint: Endpoint) -> dict[str, str]:
    found = {
        **_QUIET,
        "ANTHROPIC_BASE_URL": endpoint.base_url.rstrip("/").removesuffix("/v1"),
        "ANTHROPIC_AUTH_TOKEN": job.key or "none",
        "ANTHROPIC_MODEL": endpoint.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": endpoint.model,
        "ANTHROPIC_CUSTOM_HEADERS": "\n".join(f"{name}: {value}" for name, value in endpoint.headers.items()),
        "CLAUDE_CONFIG_DIR": str(home_of(job) / ".claude"),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(endpoint.max_output_tokens),
    }
    if getattr(os, "geteuid", lambda: 1)() == 0:
        found["IS_SANDBOX"] = "1"  # as root it refuses to skip permissions without this word
    return {name: value for name, value in found.items() if value}


def _arguments(job: Job, endpoint: Endpoint) -> list[str]:
    words = ["-p", "--output-format", "stream-json", "--verbose", "--model", endpoint.model]
    words += ["--dangerously-skip-permissions", "--strict-mcp-config", "--setting-sources", ""]
    if job.order.effort:
        words += ["--effort", job.order.effort]
    return [*words, *(["--resume", job.order.resume] if job.order.resume else [])]
