"""The real Codex against a scripted Responses endpoint on loopback: what each way of ending looks like to us."""

import base64
import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.checkout import patch as patches
from delegation.checkout import worktree as trees
from delegation.checkout.worktree import Worktree
from delegation.errors import WorkFailed
from delegation.harnesses.codex import Codex
from delegation.harnesses.codex_quota import weekly_quota
from delegation.harnesses.harness import Progress
from delegation.harnesses.placing import job_in
from delegation.harnesses.result import HarnessResult, poll_warnings
from delegation.harnesses.running import run_harness
from delegation.harnesses.words import is_thread_gone
from delegation.ids import new_id
from delegation.receipt import Usage
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from delegation.settings import Settings
from tests.doubles.harness_jobs import harness_settings, job, left_of, repository
from tests.doubles.waiting import until
from tests.real.conftest import PROGRAMS

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

PATCH = "*** Begin Patch\n*** Add File: added.txt\n+by a patch\n*** End Patch"
EDIT = "printf 'hello\\n' > hello.txt; touch /outside 2>/dev/null; echo shell done"


def codex_program() -> Path:
    found = PROGRAMS / "codex" / "node_modules" / ".bin" / "codex"
    assert found.exists(), "run `make programs-real` first"
    return found


def settings_for(place: Path, endpoint: ScriptedEndpoint) -> Settings:
    """A login home whose configuration names the scripted endpoint; no login is needed there."""
    home = place / "codex"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        'model_provider = "scripted"\n[analytics]\nenabled = false\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{endpoint.base_url}"\nwire_api = "responses"\n',
        encoding="utf-8",
    )
    return codex_settings(place)


def codex_settings(place: Path) -> Settings:
    return harness_settings(place, CODEX_HOME=str(place / "codex"), DELEGATE_CODEX_BIN=str(codex_program()))


def run_codex(
    place: Path, endpoint: ScriptedEndpoint, task: str = "Make hello.txt.", *, configured: bool = False, **order: object
) -> HarnessResult:
    settings = codex_settings(place) if configured else settings_for(place, endpoint)
    wanted = {"model": "gpt-6.1-terra", "effort": "low", "sandbox": "workspace-write", **order}
    result = run_harness(Codex(settings), job(place, "codex", task, **wanted), settings)
    assert left_of(place) == []
    return result


def worktree(place: Path, settings: Settings) -> Worktree:
    delegation_id = new_id("cx")
    tree = trees.create(
        delegation_id=delegation_id,
        repo=repository(place / "repo"),
        base_commit=None,
        workdir=".",
        isolation="worktree",
        include_dirty=False,
        place=settings.home.make(settings.home.worktrees) / delegation_id,
        home=settings.home,
    )
    trees.snapshot(tree)
    return tree


def test_an_edit_ends_as_done_with_the_file_the_answer_and_the_usage_of_the_run(tmp_path: Path):
    turns = [
        Turn(calls=(Call("exec_command", {"cmd": EDIT}),)),
        Turn(calls=(Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}),)),
        "Made it.",
    ]
    with ScriptedEndpoint(turns) as endpoint:
        result = run_codex(tmp_path, endpoint, "Make hello.txt.\nWith a second line – and ünïcode.")
        asked = endpoint.calls[0]
    assert (result.status, result.failure_kind, result.exit_code) == ("done", None, 0), result.failure_message
    assert (tmp_path / "tree" / "hello.txt").read_text(encoding="utf-8") == "hello\n"
    assert not Path("/outside").exists()
    assert (tmp_path / "tree" / "added.txt").read_text(encoding="utf-8") == "by a patch\n"
    assert (result.answer, result.tool_calls, result.last_command_exit) == ("Made it.", 2, 0)
    assert result.usage == Usage(input_tokens=300, output_tokens=60, cached_tokens=0)
    assert result.cost.kind == "flat_plan"
    assert result.session_id
    assert asked.body["model"] == "gpt-6.1-terra"
    assert asked.body["reasoning"]["effort"] == "low"
    assert "second line – and ünïcode" in asked.text
    assert re.fullmatch(r"bubblewrap \S+ \+ codex workspace-write", result.confined_by or "")
    assert "very_short_run" in poll_warnings(result)


def test_the_task_is_in_no_argument_and_the_databases_are_of_the_run_alone(tmp_path: Path):
    marker = "a-secret-of-the-task"
    with ScriptedEndpoint([Turn(fault="hang")]) as endpoint:
        settings = settings_for(tmp_path, endpoint)
        stop = threading.Event()
        found: list[HarnessResult] = []
        thread = threading.Thread(
            target=lambda: found.append(
                run_harness(
                    Codex(settings), job(tmp_path, "codex", marker, model="gpt-6.1-terra"), settings, cancelled=stop
                )
            )
        )
        thread.start()
        endpoint.wait_for(1, 60)
        shown = left_of(tmp_path)
        stop.set()
        thread.join(30)
    assert shown
    assert not [line for line in shown if marker in line]
    assert found[0].status == "cancelled"
    assert list((tmp_path / "run" / "home" / "sqlite").glob("*.sqlite"))
    assert not list((tmp_path / "codex").glob("*.sqlite"))


def test_the_plans_limit_ends_as_quota_with_its_reset_after_one_request(tmp_path: Path):
    at = datetime.now(UTC) + timedelta(hours=3)
    body = {"error": {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": int(at.timestamp())}}
    with ScriptedEndpoint([Turn(status=429, body=body, times=-1)]) as endpoint:
        result = run_codex(tmp_path, endpoint)
        assert len(endpoint.calls) == 1
    assert (result.status, result.failure_kind, result.poll_kind) == ("failed", "quota", "quota")
    assert result.exit_code == 1
    assert result.resets_at is not None
    assert abs((result.resets_at - at).total_seconds()) < 90


def test_a_429_that_stays_ends_as_throttled(tmp_path: Path):
    with ScriptedEndpoint([Turn(fault="429", retry_after="1", times=-1)]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert (result.status, result.failure_kind, result.poll_kind) == ("failed", "throttled", "throttle")


def test_a_429_that_passes_is_retried_inside_and_ends_as_done(tmp_path: Path):
    with ScriptedEndpoint([Turn(fault="429", retry_after="1"), "There."]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert (result.status, result.answer) == ("done", "There."), result.failure_message
    assert result.tool_retries >= 1


def test_a_401_ends_as_auth_failed_and_names_the_login(tmp_path: Path):
    with ScriptedEndpoint([Turn(fault="401", times=-1)]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert (result.status, result.failure_kind) == ("auth_failed", "auth")
    assert "codex login" in (result.failure_message or "")


def test_a_401_of_a_command_inside_the_run_is_no_failure_of_the_login(tmp_path: Path):
    call = Call("exec_command", {"cmd": "echo '401 Unauthorized: rate limit exceeded'; exit 7"})
    with ScriptedEndpoint([Turn(calls=(call,)), "It says 401."]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert (result.status, result.last_command_exit, result.command_failures) == ("done", 7, 1)


def test_a_stream_that_is_cut_every_time_ends_as_unreachable(tmp_path: Path):
    with ScriptedEndpoint([Turn(text="a long answer that is cut in its middle", fault="cut", times=-1)]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert (result.status, result.failure_kind, result.poll_kind) == ("failed", "unreachable", "other")
    assert result.tool_retries >= 1


def test_an_endpoint_without_headers_is_ended_by_the_idle_deadline(tmp_path: Path):
    with ScriptedEndpoint([Turn(fault="hang", times=-1)]) as endpoint:
        result = run_codex(tmp_path, endpoint, idle_seconds=4)
    assert (result.status, result.failure_kind, result.exit_code) == ("failed", "stalled", None)
    assert 4 <= result.seconds < 25


def test_the_time_limit_ends_a_run_that_is_still_at_work(tmp_path: Path):
    call = Call("exec_command", {"cmd": "while sleep 0.2; do echo on; done", "yield_time_ms": 30_000})
    with ScriptedEndpoint([Turn(calls=(call,))]) as endpoint:
        result = run_codex(tmp_path, endpoint, timeout_seconds=6, idle_seconds=2)
    assert (result.status, result.failure_kind) == ("timeout", "time_limit")
    assert 6 <= result.seconds < 25


def test_a_cancel_in_the_middle_of_a_command_leaves_no_process(tmp_path: Path):
    """The command has a session of its own, and a child that has another."""
    call = Call("exec_command", {"cmd": "echo begun > begun; setsid sleep 300 & sleep 300", "yield_time_ms": 60_000})
    stop, told = threading.Event(), list[Progress]()
    with ScriptedEndpoint([Turn(calls=(call,))]) as endpoint:
        settings = settings_for(tmp_path, endpoint)
        wanted = job(tmp_path, "codex", model="gpt-6.1-terra", sandbox="workspace-write")
        found: list[HarnessResult] = []
        thread = threading.Thread(
            target=lambda: found.append(
                run_harness(Codex(settings), wanted, settings, cancelled=stop, on_progress=told.append)
            )
        )
        thread.start()
        until((tmp_path / "tree" / "begun").exists, 60, "the command began")
        until(lambda: len(told) > 1, 20, "it told of the command")
        stop.set()
        thread.join(30)
        requests = len(endpoint.calls)
    assert found[0].status == "cancelled"
    assert found[0].failure_kind is None
    assert left_of(tmp_path) == []
    assert [each.kind for each in told[:2]] == ["started", "tool"]
    assert requests == 1


def test_a_resumed_thread_counts_only_its_own_usage(tmp_path: Path):
    with ScriptedEndpoint(["First.", "Second."]) as endpoint:
        first = run_codex(tmp_path, endpoint)
        second = run_codex(tmp_path, endpoint, "And now?", resume=first.session_id, thread_usage=first.thread_usage)
        history = endpoint.calls[-1].text
    assert (second.status, second.answer) == ("done", "Second."), second.failure_message
    assert second.session_id == first.session_id
    assert "First." in history
    assert second.thread_usage is not None
    assert second.thread_usage.input_tokens == 200
    assert second.usage.input_tokens == 100


def test_a_thread_that_is_not_there_is_told_by_words_that_we_know(tmp_path: Path):
    with ScriptedEndpoint(["Never."]) as endpoint:
        gone = run_codex(tmp_path, endpoint, resume="00000000-0000-7000-8000-000000000000")
        assert endpoint.calls == []
    assert is_thread_gone(gone.failure_message or ""), gone.failure_message


@pytest.mark.parametrize(
    ("sandbox", "writes"), [("danger-full-access", True), ("workspace-write", True), ("read-only", False)]
)
def test_our_walls_are_around_every_sandbox_of_its_own(tmp_path: Path, sandbox: str, writes: bool):
    """Its own sandboxes let every file be read; ours hides the user's home and our state."""
    call = Call("exec_command", {"cmd": "echo x > made; cat ../user/secret ../delegate/secret; touch /var/outside"})
    for folder in ("user", "delegate"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "secret").write_text("hidden words")
    with ScriptedEndpoint([Turn(calls=(call,)), "Done."]) as endpoint:
        result = run_codex(tmp_path, endpoint, sandbox=sandbox)
        said = endpoint.calls[-1].tool_results[-1]
    assert (result.status, (tmp_path / "tree" / "made").exists()) == ("done", writes)
    assert (result.confined_by or "").startswith("bubblewrap")
    assert "secret" in said
    assert "hidden words" not in said
    assert not Path("/var/outside").exists()


def test_the_week_is_read_from_the_sessions_that_codex_wrote_itself(tmp_path: Path):
    resets = int((datetime.now(UTC) + timedelta(days=2)).timestamp())
    headers = {
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(resets),
        "x-codex-secondary-used-percent": "91",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(resets),
    }
    with ScriptedEndpoint([Turn(text="Done.", headers=headers)]) as endpoint:
        result = run_codex(tmp_path, endpoint)
    assert result.status == "done"
    quota = weekly_quota(tmp_path / "codex")
    assert quota is not None
    assert quota.used_percent == 91
    assert quota.resets_at == datetime.fromtimestamp(resets, UTC)


def test_eight_at_once_share_one_login_home(tmp_path: Path):
    def turn(request: object) -> Turn:
        return Turn(text="Done.", delay_seconds=0.5)

    results: list[HarnessResult] = []
    with ScriptedEndpoint(turn) as endpoint:
        settings = settings_for(tmp_path, endpoint)
        jobs = [job(tmp_path / str(n), "codex", model="gpt-6.1-terra") for n in range(8)]
        threads = [
            threading.Thread(target=lambda each=each: results.append(run_harness(Codex(settings), each, settings)))
            for each in jobs
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert [result.status for result in results] == ["done"] * 8
    assert len({result.session_id for result in results}) == 8
    assert left_of(tmp_path) == []


def test_a_run_uses_the_plans_login_and_leaves_it_there(tmp_path: Path):
    with ScriptedEndpoint(["Done."]) as endpoint:
        login = log_in(tmp_path, endpoint, plan_login())
        before = login.read_bytes()
        result = run_codex(tmp_path, endpoint, configured=True)
        asked = endpoint.calls[0]
    assert result.status == "done", result.failure_message
    assert asked.headers["chatgpt-account-id"] == "account-1"
    assert login.read_bytes() == before


def test_a_login_by_api_key_is_refused_and_not_logged_out(tmp_path: Path):
    """Told to use the plan, Codex itself deletes such a login."""
    with ScriptedEndpoint(["Done."]) as endpoint:
        login = log_in(tmp_path, endpoint, {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-test-123456"})
        with pytest.raises(WorkFailed, match="API key") as failed:
            run_codex(tmp_path, endpoint, configured=True)
    assert failed.value.kind == "auth"
    assert login.exists()
    assert endpoint.requests == []


def log_in(place: Path, endpoint: ScriptedEndpoint, login: dict[str, object]) -> Path:
    settings_for(place, endpoint)
    with (place / "codex" / "config.toml").open("a", encoding="utf-8") as config:
        config.write("requires_openai_auth = true\n")
    path = place / "codex" / "auth.json"
    path.write_text(json.dumps(login), encoding="utf-8")
    return path


def plan_login() -> dict[str, object]:
    """As `codex login` writes it, with a token that nobody signed."""
    about = {"chatgpt_plan_type": "plus", "chatgpt_account_id": "account-1", "chatgpt_user_id": "u"}
    claims = {"exp": int(time.time()) + 86_400, "email": "a@example.invalid", "https://api.openai.com/auth": about}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    ]
    token = ".".join([*parts, "c2ln"])
    tokens = {"id_token": token, "access_token": token, "refresh_token": "r", "account_id": "account-1"}
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now}


def test_the_probe_names_version_and_login(tmp_path: Path):
    with ScriptedEndpoint() as endpoint:
        probe = Codex(settings_for(tmp_path, endpoint)).probe()
    pinned = json.loads((PROGRAMS / "codex" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert (probe.version, probe.problem) == (pinned["@openai/codex"], None)
    assert probe.program is not None
    assert probe.program.suffix != ".js"


def test_it_commits_in_a_worktree_of_ours_and_the_change_is_a_patch(tmp_path: Path):
    """Its sandbox keeps a `.git` folder read-only; the git data of our trees lies elsewhere and is given to it."""
    call = Call(
        "exec_command", {"cmd": "echo more >> README.md && git add --all && git commit -qm work && git log --oneline"}
    )
    with ScriptedEndpoint([Turn(calls=(call,)), "Committed."]) as endpoint:
        settings = settings_for(tmp_path, endpoint)
        tree = worktree(tmp_path, settings)
        order = job(tmp_path, "codex", tree=Path(tree.root), model="gpt-6.1-terra", sandbox="workspace-write").order
        result = run_harness(Codex(settings), job_in(tree, order, "Commit."), settings)
        said = endpoint.calls[-1].tool_results[-1]
    assert (result.status, result.last_command_exit) == ("done", 0), said
    patch = patches.collect(tree, out=tmp_path / "patch.diff", message="work")
    assert patch is not None
    assert "+more" in (tmp_path / "patch.diff").read_text(encoding="utf-8")
    assert (tmp_path / "repo" / "README.md").read_text(encoding="utf-8") == "hello\n"
    trees.remove(tree)
