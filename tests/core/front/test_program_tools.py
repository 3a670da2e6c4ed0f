"""Tools for jobs of Codex, Gemini and dsh: all or none, in place in a caller's own worktree, in the older words."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front import Front
from mcp import Client

from delegation.checkout.git import git
from delegation.harnesses.codex_login import stop_for_auth
from delegation.harnesses.polling import keep_beginning, keep_result
from delegation.harnesses.result import HarnessResult
from delegation.receipt import Cost
from delegation.records import Progress
from mcp_entry.server import build
from tests.core.front.mcp_client import content, text_of
from tests.doubles.harness_jobs import program, repository

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)


@pytest.fixture
def jobs(stacked: Front, tmp_path: Path) -> Front:
    """A user with a Codex and a login of it."""
    tool = program(tmp_path, "codex", "#!/bin/sh\necho codex-cli 0.171.0\n")
    stacked.environ |= {"DELEGATE_CODEX_BIN": str(tool), "CODEX_HOME": str(tmp_path / "codex-home")}
    return stacked


def client(front: Front) -> Client:
    return Client(build(front.service, programs=("codex", "gemini", "dsh")))


async def asked(front: Front, tool: str, **arguments: Any) -> dict[str, Any]:
    async with client(front) as connected:
        return content(await connected.call_tool(tool, arguments))


async def refused(front: Front, tool: str, **arguments: Any) -> str:
    async with client(front) as connected:
        result = await connected.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


async def submitted(front: Front, *tasks: dict[str, Any]) -> list[str]:
    given = [{"workdir": str(front.repo), **task} for task in tasks]
    return [job["id"] for job in (await asked(front, "submit_codex", tasks=given))["jobs"]]


def ended(front: Front, job_id: str, outcome: str = "unverified", **fields: Any) -> None:
    cost = Cost(amount_usd=None, kind="flat_plan")
    times = {"started_at": NOW - timedelta(seconds=90), "ended_at": NOW}
    kept = {"harness": "codex", "cost": cost, "answer": "Did it.", "exit_code": 0, **times}
    failure = {"failure_kind": fields.get("failure_kind"), "failure_message": fields.get("failure_message")}
    keep_result(front.records.folder(job_id), HarnessResult.model_validate({**kept, **failure}))
    front.end(job_id, outcome, **fields)


async def test_tools_of_a_program_appear_only_where_it_is_installed(front: Front):
    async with Client(build(front.service, programs=("gemini", "claude"))) as connected:
        names = {tool.name for tool in (await connected.list_tools()).tools}
    assert {name for name in names if name.endswith(("_codex", "_gemini", "_dsh", "_claude"))} == {
        "delegate_to_gemini", "submit_gemini", "poll_gemini", "cancel_gemini",
    }  # fmt: skip


async def test_jobs_are_submitted_with_their_orders_and_a_watch_for_all(jobs: Front):
    given = [{"task": text, "workdir": str(jobs.repo), "model": "sol", "effort": "high"} for text in ("One", "Two")]
    answer = await asked(jobs, "submit_codex", tasks=given)
    ids = [job["id"] for job in answer["jobs"]]
    assert all(job_id.startswith("cx-") for job_id in ids)
    assert answer["watch"].endswith(" ".join(ids))
    assert "at once in the background" in answer["watch_hint"]
    request = jobs.records.request(ids[0])
    assert request.order is not None
    assert (request.order.model, request.order.effort, request.order.sandbox) == (
        "gpt-6.1-sol",
        "high",
        "workspace-write",
    )
    assert (request.endpoint.bucket, request.tool, request.card.isolation) == ("codex", "submit_codex", "worktree")
    assert request.limits.timeout_seconds == 1_800
    assert request.order.variables["DELEGATE_CODEX_BIN"] == jobs.environ["DELEGATE_CODEX_BIN"]


async def test_one_bad_task_starts_none_and_is_named_by_its_number(jobs: Front, tmp_path: Path):
    good = {"task": "Do it", "workdir": str(jobs.repo)}
    said = await refused(jobs, "submit_codex", tasks=[good, {**good, "model": "gpt-5.6"}])
    assert "tasks[1]" in said
    said = await refused(jobs, "submit_codex", tasks=[good, {**good, "workdir": jobs.environ["HOME"]}])
    assert "workdir_forbidden" in said
    said = await refused(jobs, "submit_codex", tasks=[good, {**good, "sandbox": "danger-full-access"}])
    assert "DELEGATE_CODEX_ALLOW_DANGER" in said
    private = repository(tmp_path / "private", {".delegate.toml": 'lane = "local"\n'})
    said = await refused(jobs, "submit_codex", tasks=[good, {**good, "workdir": str(private)}])
    assert "tasks[1]: lane 'local' refuses" in said
    assert jobs.records.ids() == []


async def test_a_callers_own_worktree_is_worked_in_itself(jobs: Front, tmp_path: Path):
    git("worktree", "add", "-q", str(tmp_path / "mine"), cwd=jobs.repo)
    (job_id,) = await submitted(jobs, {"task": "Do it", "workdir": str(tmp_path / "mine")})
    assert jobs.records.request(job_id).card.isolation == "in_place"


async def test_a_full_queue_refuses_the_whole_submit(jobs: Front):
    jobs.environ |= {"DELEGATE_CODEX_MAX_CONCURRENT": "1", "DELEGATE_CODEX_MAX_PER_PROJECT": "1"}
    jobs.environ["DELEGATE_CODEX_MAX_QUEUE"] = "1"
    given = [{"task": text, "workdir": str(jobs.repo)} for text in ("One", "Two", "Three")]
    assert "DELEGATE_CODEX_MAX_QUEUE" in await refused(jobs, "submit_codex", tasks=given)
    assert jobs.records.ids() == []


async def test_a_poll_speaks_the_older_words_at_every_stage(jobs: Front):
    waiting, working, done, failed = await submitted(jobs, *({"task": f"Task {number}"} for number in range(4)))
    jobs.records.write_status(waiting, Progress(step="waiting", queue_reason="checkout_busy", detail="x"))
    keep_beginning(jobs.records.folder(working), NOW)
    jobs.records.write_status(working, Progress(step="agent", detail="tool: ls"))
    ended(jobs, done)
    ended(jobs, failed, "failed", failure_kind="quota", failure_message="plan limit")
    answer = await asked(jobs, "poll_codex", ids=[waiting, working, done, failed, "cx-no-such"])
    found = answer["jobs"]
    assert [job["status"] for job in found] == ["queued", "running", "done", "failed", "unknown"]
    assert (found[0]["queue_reason"], found[0]["owner"]["alive"]) == ("workspace_busy", True)
    assert found[1]["last_activity_age_s"] < 60
    assert (found[2]["final_response"], found[2]["verdict"]["outcome"]) == ("Did it.", "unverified")
    assert (found[3]["failure_kind"], found[3]["error"]) == ("quota", "plan limit")
    assert answer["account"] == "ok"


async def test_a_job_of_another_program_is_unknown_here(jobs: Front):
    (job_id,) = await submitted(jobs, {"task": "Do it"})
    assert (await asked(jobs, "poll_dsh", ids=[job_id]))["jobs"][0]["status"] == "unknown"
    assert (await asked(jobs, "cancel_gemini", id=job_id))["status"] == "unknown"


async def test_a_queued_job_that_is_cancelled_ends_as_cancelled(jobs: Front):
    (job_id,) = await submitted(jobs, {"task": "Do it"})
    await asked(jobs, "cancel_codex", id=job_id)
    assert (await asked(jobs, "poll_codex", ids=[job_id]))["jobs"][0]["status"] == "cancelled"


async def test_nothing_is_admitted_while_the_login_is_refused(jobs: Front, tmp_path: Path):
    stop_for_auth(jobs.settings)
    said = await refused(jobs, "submit_codex", tasks=[{"task": "Do it", "workdir": str(jobs.repo)}])
    assert "codex login" in said
    (tmp_path / "codex-home").mkdir()
    (tmp_path / "codex-home" / "auth.json").write_text("{}", encoding="utf-8")
    assert await submitted(jobs, {"task": "Do it"})


async def test_a_call_that_waits_gives_the_job_and_how_to_watch_it(jobs: Front):
    answer = await asked(jobs, "delegate_to_codex", task="Do it", workdir=str(jobs.repo), wait_seconds=0)
    assert (answer["status"], answer["watch"].endswith(answer["id"])) == ("queued", True)
