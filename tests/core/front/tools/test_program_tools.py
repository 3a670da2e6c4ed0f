"""Tools for jobs of Codex, Gemini and dsh: all or none, in place in a caller's own worktree, in the older words."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front import ROOT, Front
from mcp import Client

from delegation.checkout.git import git
from delegation.errors import ConflictError
from delegation.harnesses.codex_login import stop_for_auth
from delegation.harnesses.polling import keep_beginning, keep_result
from delegation.harnesses.result import HarnessResult
from delegation.receipt import Cost
from delegation.records import Progress
from delegation.shared_state import SharedState, cooldowns
from delegation.stack_state import read_state
from mcp_entry.mcp_server.server import build
from mcp_entry.verbs.program_jobs import job_fields, submit_jobs
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


async def test_a_server_of_the_plugin_says_that_its_hook_wakes(jobs: Front):
    jobs.environ["CLAUDE_PLUGIN_ROOT"] = "/plugin"
    answer = await asked(jobs, "submit_codex", tasks=[{"task": "Do it", "workdir": str(jobs.repo)}])
    assert "hook wakes this session" in answer["watch_hint"]
    assert answer["watch"]


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
    assert answer["account"]["status"] == "ok"


async def test_a_job_whose_process_died_was_killed_where_it_had_begun_and_is_lost_elsewhere(jobs: Front):
    begun, never = await submitted(jobs, {"task": "One"}, {"task": "Two"})
    keep_beginning(jobs.records.folder(begun), NOW)
    for each in (begun, never):
        jobs.end(each, "failed", failure_kind="lost", failure_message="its process was gone again")
    found = (await asked(jobs, "poll_codex", ids=[begun, never]))["jobs"]
    assert [job["status"] for job in found] == ["killed_on_restart", "lost"]
    assert found[0]["error"] == "its process was gone again"


async def test_a_working_job_names_the_process_and_session_that_own_it(jobs: Front):
    (job_id,) = await submitted(jobs, {"task": "Do it"})
    jobs.records.write_status(job_id, Progress(step="agent", pid=os.getpid()))
    (job,) = (await asked(jobs, "poll_codex", ids=[job_id]))["jobs"]
    assert job["owner"] == {"pid": os.getpid(), "sid": os.getsid(0), "alive": True}
    jobs.records.write_status(job_id, Progress(step="agent", pid=2**22 + 1))
    (job,) = (await asked(jobs, "poll_codex", ids=[job_id]))["jobs"]
    assert job["owner"]["sid"] is None


async def test_a_poll_tells_of_the_account_whatever_jobs_it_asks_for(jobs: Front):
    """A cooldown of another session's job counts for this one, too."""
    state = read_state(jobs.settings.home)
    assert state is not None
    until = datetime.now(UTC) + timedelta(seconds=90)
    with SharedState(state.database_url) as shared:
        cooldowns.begin(shared, "codex", until=until, kind="throttled", reason="429", now=datetime.now(UTC))
    account = (await asked(jobs, "poll_codex", ids=["cx-no-such"]))["account"]
    assert (account["status"], account["reason"]) == ("cooldown", "429")
    assert 80 < account["retry_in_s"] <= 90
    assert account["effective_caps"] == {"everywhere": 8, "per_project": 6}


async def test_much_of_the_week_is_a_warning_in_submit_and_poll(jobs: Front, tmp_path: Path):
    week = {"used_percent": 91, "window_minutes": 10_080, "resets_at": int(time.time()) + 86_400}
    event = {"timestamp": NOW.isoformat(), "payload": {"rate_limits": {"secondary": week}}}
    folder = tmp_path / "codex-home" / "sessions" / "2026" / "11" / "30"
    folder.mkdir(parents=True)
    (folder / "rollout-a.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    answer = await asked(jobs, "submit_codex", tasks=[{"task": "Do it", "workdir": str(jobs.repo)}])
    assert answer["warning"].startswith("91 % of the week's Codex plan is used")
    (job,) = (await asked(jobs, "poll_codex", ids=[answer["jobs"][0]["id"]]))["jobs"]
    assert job["warning"] == answer["warning"]
    jobs.environ["DELEGATE_CODEX_QUOTA_REFUSE_PCT"] = "90"
    task = {"task": "Do it", "workdir": str(jobs.repo)}
    assert "allow_over_quota" in await refused(jobs, "submit_codex", tasks=[task])
    assert await asked(jobs, "submit_codex", tasks=[{**task, "allow_over_quota": True}])


async def test_a_job_that_has_ended_is_not_cancelled_any_more(jobs: Front):
    (job_id,) = await submitted(jobs, {"task": "Do it"})
    ended(jobs, job_id)
    assert (await asked(jobs, "cancel_codex", id=job_id))["status"] == "done"


async def test_the_same_tool_use_sent_again_is_the_same_jobs(jobs: Front):
    """A client that gave up waiting sends its call again."""
    given = {"tasks": [{"task": text, "workdir": str(jobs.repo)} for text in ("One", "Two")]}
    meta: Any = {"claudecode/toolUseId": "toolu_7"}
    async with client(jobs) as connected:
        first, again = [content(await connected.call_tool("submit_codex", given, meta=meta)) for _ in range(2)]
    assert [job["id"] for job in again["jobs"]] == [job["id"] for job in first["jobs"]]
    assert [job["duplicate_of_key"] for job in again["jobs"]] == [True, True]
    assert len(jobs.records.ids()) == 2


async def test_an_answer_of_gemini_has_its_own_names(jobs: Front):
    (job_id,) = await submitted(jobs, {"task": "Do it"})
    result = HarnessResult.model_validate(
        {
            "harness": "gemini",
            "cost": Cost(amount_usd=None, kind="flat_plan"),
            "answer": "Looked.",
            "session_id": "c-1",
            "exit_code": 0,
            "started_at": NOW - timedelta(seconds=90),
            "ended_at": NOW,
        }
    )
    keep_result(jobs.records.folder(job_id), result)
    jobs.end(job_id, "answered")
    (job,) = (await asked(jobs, "poll_codex", ids=[job_id]))["jobs"]
    told = {name: job[name] for name in ("status", "response", "conversation_id", "duration_s", "exit_code")}
    assert told == {
        "status": "done",
        "response": "Looked.",
        "conversation_id": "c-1",
        "duration_s": 90.0,
        "exit_code": 0,
    }
    assert "usage" in job


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


def test_what_an_earlier_call_began_goes_on_when_a_later_one_with_its_key_fails(jobs: Front):
    def begin(*tasks: str, keys: list[str]) -> list[str]:
        given = [{"task": task, "workdir": str(jobs.repo)} for task in tasks]
        return [each.id for each in submit_jobs(verbs, "codex", given, tool="submit_codex", keys=keys)]

    verbs = jobs.service()
    (first,), (second,) = begin("One", keys=["k1"]), begin("Two", keys=["k2"])
    with pytest.raises(ConflictError):
        begin("One", "New", "Not two", keys=["k1", "k3", "k2"])
    new = next(name for name in jobs.records.ids() if name not in (first, second))
    states = [job_fields(verbs, "codex", name)["status"] for name in (first, second, new)]
    assert states == ["queued", "queued", "cancelled"]


async def test_a_poll_takes_as_many_ids_as_a_submit_takes_tasks(jobs: Front):
    async with client(jobs) as connected:
        schemas = {tool.name: tool.input_schema["properties"] for tool in (await connected.list_tools()).tools}
    page = (ROOT / "docs" / "reference" / "mcp-tools.md").read_text(encoding="utf-8")
    for kind in ("codex", "gemini", "dsh"):
        most = schemas[f"poll_{kind}"]["ids"]["maxItems"]
        assert most == schemas[f"submit_{kind}"]["tasks"]["maxItems"]
        assert f"`ids`, up to {most}." in page.split("### poll_codex")[1]
