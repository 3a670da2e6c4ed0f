"""Tools for jobs of Codex, Gemini and dsh: one implementation under the names that their users know."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from delegation.harnesses.account import Account
from delegation.harnesses.codex_quota import quota_in
from delegation.harnesses.order import LONGEST_SECONDS, HarnessName
from delegation.harnesses.polling import with_shorter_answers
from delegation.harnesses.pools import KINDS
from mcp_entry.mcp_server.tool_host import Ctx, Tool, ToolHost, expected, key_of, waiting_seconds
from mcp_entry.mcp_server.tool_wording import for_tools
from mcp_entry.tools.delegations import WaitSeconds
from mcp_entry.verbs.program_jobs import account, job_fields, submit_jobs
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.wording import jobs_watch_command, jobs_watch_hint

_MOST_TASKS = _MOST_IDS = 64
_TITLES: Mapping[str, str] = {"codex": "Codex", "gemini": "Gemini", "dsh": "dsh"}

Task = Annotated[str, Field(description="Complete in itself.")]
Workdir = Annotated[str, Field(description="A folder. A linked git worktree is changed itself, else the job gets one.")]
Verify = Annotated[str | None, Field(description="Shell command that judges the change.")]
Seconds = Annotated[int | None, Field(ge=1, le=LONGEST_SECONDS, description="From its start; none: the usual.")]
CodexModel = Annotated[str | None, Field(description="terra, sol, astra, luna, 5.6-sol, ...; none: the default.")]
CodexEffort = Annotated[str, Field(description="low, medium, high, xhigh or max.")]
CodexSandbox = Annotated[str, Field(description="workspace-write or read-only; danger-full-access has a gate.")]
OverQuota = Annotated[bool, Field(description="Begin though the week's plan is used beyond the user's limit.")]
GeminiEffort = Annotated[str, Field(description="low, medium or high.")]


class _TaskFields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task: Task
    workdir: Workdir = "."
    timeout_s: Seconds = None
    verify: Verify = None


class CodexTask(_TaskFields):
    """One job of Codex."""

    model: CodexModel = None
    effort: CodexEffort = "low"
    sandbox: CodexSandbox = "workspace-write"
    allow_over_quota: OverQuota = False


class GeminiTask(_TaskFields):
    """One job of Gemini."""

    effort: GeminiEffort = "low"


class DshTask(_TaskFields):
    """One job of dsh."""

    model: Annotated[str, Field(description="One that the user's models file allows.")]


class Job(BaseModel):
    """One job that is on its way."""

    id: str
    duplicate_of_key: bool = Field(default=False, description="This very call was made before: it is that job.")
    warnings: list[str] = Field(default_factory=list)


class Jobs(BaseModel):
    """In the order of the tasks. `watch` ends when all have."""

    jobs: list[Job]
    watch: str
    watch_hint: str
    warning: str | None = Field(
        default=None, description="How much of the week's Codex plan is used, where it is much."
    )


class PolledJobs(BaseModel):
    """In the order of the ids."""

    jobs: list[dict[str, Any]]
    account: Account | None = None


@dataclass(frozen=True)
class ProgramTools:
    """The tools of one program, as a group of the server."""

    harness: HarnessName

    @property
    def GROUP(self) -> str:  # noqa: N802  # as the modules of other groups
        return self.harness

    def tools(self, host: ToolHost) -> Iterable[Tool]:
        """Submit, poll, cancel, and for Codex and Gemini the call that waits."""
        name, title = self.harness, _TITLES[self.harness]
        waiting = {"codex": _delegate_to_codex, "gemini": _delegate_to_gemini}.get(name)
        if waiting is not None:
            yield Tool(f"delegate_to_{name}", f"Delegate to {title} and wait", waiting(host), read_only=False)
        submit = {"codex": _submit_codex, "gemini": _submit_gemini, "dsh": _submit_dsh}[name]
        yield Tool(f"submit_{name}", f"Submit jobs to {title}", submit(host), read_only=False)
        yield Tool(f"poll_{name}", f"How jobs of {title} stand", _poll(host, name), read_only=True)
        yield Tool(f"cancel_{name}", f"Cancel a job of {title}", _cancel(host, name), read_only=False)


def program_tools(harnesses: Iterable[HarnessName]) -> tuple[ProgramTools, ...]:
    """The groups of these programs; others than the three have no tools of their own."""
    return tuple(ProgramTools(each) for each in harnesses if each in KINDS)


def _delegate_to_codex(host: ToolHost) -> Callable[..., Any]:
    @expected
    async def delegate_to_codex(
        ctx: Ctx,
        task: Task,
        workdir: Workdir = ".",
        model: CodexModel = None,
        sandbox: CodexSandbox = "workspace-write",
        timeout_s: Seconds = None,
        effort: CodexEffort = "low",
        allow_over_quota: OverQuota = False,
        verify: Verify = None,
        wait_seconds: WaitSeconds = None,
    ) -> dict[str, Any]:
        """Let the Codex CLI do a piece of work under the user's ChatGPT plan, and wait. `status: done` says that it
        ended well, not that the work is right. Codex is a cloud service: no patients' or other personal data."""
        fields = {"task": task, "workdir": workdir, "model": model, "sandbox": sandbox, "timeout_s": timeout_s,
                  "effort": effort, "allow_over_quota": allow_over_quota, "verify": verify}  # fmt: skip
        return await _waited(host, "codex", fields, wait_seconds, ctx)

    return delegate_to_codex


def _delegate_to_gemini(host: ToolHost) -> Callable[..., Any]:
    @expected
    async def delegate_to_gemini(
        ctx: Ctx,
        task: Task,
        workdir: Workdir = ".",
        effort: GeminiEffort = "low",
        timeout_s: Seconds = None,
        verify: Verify = None,
        wait_seconds: WaitSeconds = None,
    ) -> dict[str, Any]:
        """Let Gemini (Antigravity) do a piece of work in its jail, and wait. It uploads files of the folder: no
        patients' or other personal data in the task or in any file there."""
        fields = {"task": task, "workdir": workdir, "effort": effort, "timeout_s": timeout_s, "verify": verify}
        return await _waited(host, "gemini", fields, wait_seconds, ctx)

    return delegate_to_gemini


def _submit_codex(host: ToolHost) -> Callable[..., Any]:
    @expected
    async def submit_codex(
        ctx: Ctx, tasks: Annotated[list[CodexTask], Field(min_length=1, max_length=_MOST_TASKS)]
    ) -> Jobs:
        """Start jobs of the Codex CLI under the user's ChatGPT plan; all, or none if one cannot be. Give each a
        worktree of its own as `workdir` where you want the files there. Codex is a cloud service: no personal data."""
        return await _submitted(host, "codex", tasks, ctx)

    return submit_codex


def _submit_gemini(host: ToolHost) -> Callable[..., Any]:
    @expected
    async def submit_gemini(
        ctx: Ctx, tasks: Annotated[list[GeminiTask], Field(min_length=1, max_length=_MOST_TASKS)]
    ) -> Jobs:
        """Start jobs of Gemini (Antigravity) in their jail; all, or none if one cannot be. It uploads files of the
        folder: no patients' or other personal data in the task or in any file there."""
        return await _submitted(host, "gemini", tasks, ctx)

    return submit_gemini


def _submit_dsh(host: ToolHost) -> Callable[..., Any]:
    @expected
    async def submit_dsh(
        ctx: Ctx, tasks: Annotated[list[DshTask], Field(min_length=1, max_length=_MOST_TASKS)]
    ) -> Jobs:
        """Start jobs of dsh; all, or none if one cannot be. Its change is not applied: it lies in `out_dir` of the
        poll. Cloud models get code only, never personal data."""
        return await _submitted(host, "dsh", tasks, ctx)

    return submit_dsh


def _poll(host: ToolHost, harness: HarnessName) -> Callable[..., Any]:
    @expected
    async def poll(ids: Annotated[list[str], Field(min_length=1, max_length=_MOST_IDS)]) -> PolledJobs:
        """How jobs stand: queued (and why), running, done, failed, timeout, cancelled, auth_failed, lost,
        killed_on_restart, unknown. `done` is the program's word; `verdict` is ours. Do not poll in a loop: run the
        `watch` of the submit."""
        return await host.call(lambda verbs: _polled(verbs, harness, ids))

    return poll


def _polled(verbs: Service, harness: HarnessName, ids: Sequence[str]) -> PolledJobs:
    jobs = with_shorter_answers([job_fields(verbs, harness, each) for each in ids])
    return PolledJobs(jobs=jobs, account=account(verbs) if harness == "codex" else None)


def _cancel(host: ToolHost, harness: HarnessName) -> Callable[..., Any]:
    @expected
    async def cancel(id: str) -> dict[str, Any]:  # noqa: A002  # the argument's known name
        """End a job, queued or running; nothing happens to one that has ended. What it had changed is kept."""
        return await host.call_to_the_end(lambda verbs: _cancelled(verbs, harness, id))

    return cancel


def _cancelled(verbs: Service, harness: HarnessName, text: str) -> dict[str, Any]:
    before = job_fields(verbs, harness, text)
    if before["status"] == "unknown":
        return before
    done = verbs.cancel(before["id"])
    return job_fields(verbs, harness, text) if done.had_ended else {"id": done.id, "status": "cancelling"}


async def _submitted(host: ToolHost, harness: HarnessName, tasks: Sequence[_TaskFields], ctx: Ctx) -> Jobs:
    tool = f"submit_{harness}"
    keys = [key_of(ctx, tool, part) for part in range(len(tasks))]
    given = [task.model_dump() for task in tasks]
    started = await host.call_to_the_end(lambda verbs: submit_jobs(verbs, harness, given, tool=tool, keys=keys))
    jobs = [
        Job(id=each.id, duplicate_of_key=not each.is_new, warnings=[for_tools(said) for said in each.warnings])
        for each in started
    ]
    settings = (await host.call(lambda verbs: verbs)).settings
    return Jobs(
        jobs=jobs,
        watch=jobs_watch_command(settings.home, [job.id for job in jobs]),
        watch_hint=jobs_watch_hint(settings.environ),
        warning=quota_in([said for job in jobs for said in job.warnings]),
    )


async def _waited(
    host: ToolHost, harness: HarnessName, fields: Mapping[str, Any], wait_seconds: float | None, ctx: Ctx
) -> dict[str, Any]:
    tool = f"delegate_to_{harness}"
    key = key_of(ctx, tool)
    started = await host.call_to_the_end(lambda verbs: submit_jobs(verbs, harness, [fields], tool=tool, keys=[key]))
    job_id = started[0].id
    await host.wait([job_id], waiting_seconds(wait_seconds, ctx), ctx)
    found = await host.call(lambda verbs: job_fields(verbs, harness, job_id))
    if "owner" not in found:  # it has ended
        return found
    settings = (await host.call(lambda verbs: verbs)).settings
    watch = jobs_watch_command(settings.home, [job_id])
    return {**found, "watch": watch, "watch_hint": jobs_watch_hint(settings.environ)}
