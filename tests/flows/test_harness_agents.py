"""Command-line agents as agents of a delegation: their own tree, a patch, a verdict, a receipt, and the failures."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import UsageError
from delegation.masking import MASK
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from delegation.settings import load_settings
from mcp_entry.verbs.program_jobs import job_fields, submit_jobs
from mcp_entry.verbs.service import Service
from tests.doubles.agy import agy_settings
from tests.doubles.harness_jobs import program
from tests.doubles.waiting import until
from tests.flows.conftest import ROOT, Terminal, local_model

pytestmark = pytest.mark.stack

CODEX = ROOT / ".programs" / "codex" / "node_modules" / ".bin" / "codex"
JUDGED = ("--verify", "python -m pytest -q", "--json")
FIX = "sed -i 's/a - b/a + b/' adding.py"


@pytest.fixture
def commands(stack: Terminal) -> Iterator[Any]:
    """Adds a `[commands.<name>]` table that runs a script; taken away at the end."""
    config = stack.home / "config" / "delegate.toml"
    before = config.read_text(encoding="utf-8") if config.exists() else None
    config.parent.mkdir(exist_ok=True)

    def add(name: str, script: Path, more: str = "") -> None:
        table = f'\n[commands.{name}]\nargv = ["{script}", "{{task_file}}"]\n{more}\n' if name else more
        config.write_text((before or "") + table, encoding="utf-8")

    yield add
    if before is None:
        config.unlink()
    else:
        config.write_text(before, encoding="utf-8")


def record(stack: Terminal, receipt: Mapping[str, Any]) -> Path:
    return stack.home / "delegations" / receipt["id"]


def test_a_program_of_the_users_changes_a_tree_of_its_own_and_is_judged_like_every_other(
    stack: Terminal, commands: Any, small_repository: Path, tmp_path: Path
):
    commands("fixer", program(tmp_path, "fixer", f"#!/bin/sh\ngrep -q 'Fix it' \"$1\" && {FIX} && echo I did.\n"))
    ran = stack("run", "Fix it", "--repo", str(small_repository), "--agent", "fixer", *JUDGED)
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    assert (receipt["agent"], receipt["bucket"], receipt["answer"]) == ("fixer", "command", "I did.")
    assert receipt["patch"]["files"] == 1
    assert "a - b" in (small_repository / "adding.py").read_text(encoding="utf-8")
    assert "I did." in (record(stack, receipt) / "harness.log").read_text(encoding="utf-8")
    assert receipt["confined_by"].startswith("bubblewrap")
    assert stack("apply", receipt["id"]).code == 0
    assert "a + b" in (small_repository / "adding.py").read_text(encoding="utf-8")


def test_what_a_program_that_failed_had_done_is_kept_with_its_words(
    stack: Terminal, commands: Any, small_repository: Path, tmp_path: Path
):
    commands("half", program(tmp_path, "half", f"#!/bin/sh\n{FIX}\necho out of luck >&2\nexit 7\n"))
    ran = stack("run", "Fix it", "--repo", str(small_repository), "--agent", "half", *JUDGED)
    receipt = ran.json
    assert (ran.code, receipt["outcome"], receipt["failure_kind"]) == (1, "failed", "process")
    assert "out of luck" in receipt["failure_message"]
    assert "partial" in receipt["flags"]
    assert receipt["patch"]["files"] == 1


def test_a_throttled_program_is_run_again_after_its_hint_and_the_first_run_is_in_the_receipt(
    stack: Terminal, commands: Any, small_repository: Path, tmp_path: Path
):
    refuse = "touch once; echo 'rate limit exceeded: try again in 2s' >&2; exit 1"
    commands("shy", program(tmp_path, "shy", f"#!/bin/sh\n[ -f once ] || {{ {refuse}; }}\nrm once; {FIX}; echo ok\n"))
    ran = stack("run", "Fix it", "--repo", str(small_repository), "--agent", "shy", *JUDGED)
    assert (ran.code, ran.json["outcome"]) == (0, "verified"), ran.stderr
    assert [each["failure_kind"] for each in ran.json["attempts"]] == ["throttled", None]


def test_a_program_that_is_cancelled_is_gone_and_its_change_is_kept(
    stack: Terminal, commands: Any, small_repository: Path, tmp_path: Path
):
    commands("slow", program(tmp_path, "slow", f"#!/bin/sh\n{FIX}\necho begun\nsleep 300 & wait\n"))
    words = ("run", "Fix it", "--repo", str(small_repository), "--agent", "slow", "--no-wait", "--json")
    name = stack(*words).json["id"]
    status = stack.home / "delegations" / name / "status.json"
    until(lambda: "begun" in status.read_text(encoding="utf-8"))
    assert stack("cancel", name).code == 0
    receipt = stack("show", name, "--json").json
    assert (receipt["outcome"], receipt["patch"]["files"]) == ("cancelled", 1)
    assert not [line for line in stack.processes() if str(tmp_path) in line]


@pytest.mark.slow
@pytest.mark.skipif(not CODEX.exists(), reason="no Codex: `make programs-real` installs it")
def test_the_real_codex_repairs_and_is_verified(stack: Terminal, small_repository: Path, tmp_path: Path):
    turns = [Turn(calls=(Call("exec_command", {"cmd": FIX}),)), "Repaired."]
    with ScriptedEndpoint(turns) as endpoint:
        env = codex_environment(tmp_path, endpoint)
        words = ("--agent", "codex", "--model", "terra", "--effort", "low")
        ran = stack("run", "Fix it", "--repo", str(small_repository), *words, *JUDGED, env=env)
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    assert receipt["id"].startswith("cx-")
    assert (receipt["answer"], receipt["cost"]["kind"], receipt["lane"]) == (
        "Repaired.",
        "flat_plan",
        "subscription_cli",
    )
    assert endpoint.calls[0].body["model"] == "gpt-6.1-terra"
    assert receipt["usage"]["input_tokens"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not CODEX.exists(), reason="no Codex: `make programs-real` installs it")
def test_the_real_codex_goes_on_in_its_thread_and_on_its_change(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    turns = [Turn(calls=(Call("exec_command", {"cmd": FIX}),)), "First.", "Second."]
    with ScriptedEndpoint(turns) as endpoint:
        env = codex_environment(tmp_path, endpoint)
        words = ("--repo", str(small_repository), "--agent", "codex", "--json")
        first = stack("run", "Fix it", *words, env=env).json
        more = ("--continue", "--prompt-add", "Now say what you did.", "--json")
        second = stack("rerun", first["id"], *more, env=env).json
    assert [each["answer"] for each in (first, second)] == ["First.", "Second."], second
    threads = [json.loads((record(stack, each) / "harness.json").read_text()) for each in (first, second)]
    assert threads[0]["session_id"] == threads[1]["session_id"]
    assert (second["usage"]["input_tokens"], threads[1]["thread_usage"]["input_tokens"]) == (100, 300)
    asked = endpoint.calls[-1].text
    assert "First." in asked
    assert "Now say what you did." in asked
    assert second["patch"]["files"] == 1


@pytest.mark.slow
def test_gemini_is_refused_without_its_gate_and_works_in_its_jail_with_it(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    settings = agy_settings(tmp_path)
    env = {name: settings.environ[name] for name in ("DELEGATE_AGY_BIN", "HOME")}
    words = ("run", "Look", "--repo", str(small_repository), "--agent", "gemini", "--expects", "answer", "--json")
    refused = stack(*words, env=env)
    assert refused.code == 2
    assert "DELEGATE_GEMINI_ALLOW_DANGER" in refused.stderr
    ran = stack(*words, env={**env, "DELEGATE_GEMINI_ALLOW_DANGER": "1"})
    assert (ran.code, ran.json["outcome"]) == (0, "answered"), ran.stderr
    assert ran.json["id"].startswith("gm-")
    assert ran.json["confined_by"].startswith("bubblewrap")


def codex_environment(place: Path, endpoint: ScriptedEndpoint) -> dict[str, str]:
    """A login home whose configuration names the scripted endpoint; no login is needed there."""
    home = place / "codex"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(
        'model_provider = "scripted"\n[analytics]\nenabled = false\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{endpoint.base_url}"\nwire_api = "responses"\n',
        encoding="utf-8",
    )
    return {"CODEX_HOME": str(home), "DELEGATE_CODEX_BIN": str(CODEX)}


@pytest.mark.slow
def test_jobs_in_one_worktree_of_the_callers_run_one_after_the_other_and_change_it_itself(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    mine, log = tmp_path / "mine", tmp_path / "mine" / "log"
    subprocess.run(["git", "worktree", "add", "-q", str(mine)], cwd=small_repository, check=True)
    events = '{"type":"thread.started","thread_id":"t"}\\n{"type":"turn.started"}\\n'
    done = '{"type":"turn.completed","usage":{"input_tokens":7,"output_tokens":3}}\\n'
    body = f"cat >/dev/null; echo begin >> log; sleep 2; echo end >> log; printf '{events}{done}'"
    script = program(
        tmp_path, "codex", f'#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.171.0 && exit 0\n{body}\n'
    )
    env = {"DELEGATE_CODEX_BIN": str(script), "CODEX_HOME": str(tmp_path / "login"), "DELEGATE_CODEX_STAGGER_S": "0"}
    verbs = Service(load_settings(stack.environment(env), cwd=mine))
    given = [{"task": text, "workdir": str(mine)} for text in ("One", "Two")]
    ids = [each.id for each in submit_jobs(verbs, "codex", given, tool="submit_codex", keys=(None, None))]
    waiting = [sys.executable, "-m", "mcp_entry.terminal.delegate_wait", "--all", "--json", "--timeout", "120", *ids]
    ran = subprocess.run(waiting, env=stack.environment(env), cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {each["id"]: each["status"] for each in told} == dict.fromkeys(ids, "done")
    assert log.read_text(encoding="utf-8").split() == ["begin", "end", "begin", "end"]


@pytest.mark.slow
def test_a_refused_login_stops_those_behind_it_until_a_person_has_logged_in_again(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    mine, login = tmp_path / "mine", tmp_path / "login" / "auth.json"
    subprocess.run(["git", "worktree", "add", "-q", str(mine)], cwd=small_repository, check=True)
    login.parent.mkdir()
    failed = '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}'
    done = '{"type":"turn.completed","usage":{"input_tokens":7,"output_tokens":3}}'
    began = '{"type":"thread.started","thread_id":"t"}\\n{"type":"turn.started"}\\n'
    ends = f"[ -f {login} ] && printf '{began}{done}\\n' && exit 0; sleep 2; printf '{began}{failed}\\n'; exit 1"
    version = '[ "$1" = --version ] && echo codex-cli 0.171.0 && exit 0'
    script = program(tmp_path, "codex", f"#!/bin/sh\n{version}\ncat >/dev/null\n{ends}\n")
    env = {"DELEGATE_CODEX_BIN": str(script), "CODEX_HOME": str(login.parent), "DELEGATE_CODEX_STAGGER_S": "0"}
    verbs = Service(load_settings(stack.environment(env), cwd=mine))
    given = [{"task": text, "workdir": str(mine)} for text in ("One", "Two")]
    ids = [each.id for each in submit_jobs(verbs, "codex", given, tool="submit_codex", keys=(None, None))]

    def standing() -> dict[str, str]:
        found = [job_fields(verbs, "codex", each) for each in ids]
        return {each["status"]: each["id"] for each in found if each.get("queue_reason") in (None, "auth_failed")}

    until(lambda: standing().keys() == {"auth_failed", "queued"}, 90)
    with pytest.raises(UsageError, match="codex login"):
        submit_jobs(verbs, "codex", given[:1], tool="submit_codex", keys=(None,))
    login.write_text("{}", encoding="utf-8")
    until(lambda: standing().keys() == {"auth_failed", "done"}, 90)


@pytest.mark.slow
def test_claude_code_gets_the_endpoint_and_the_key_of_its_model(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    told = '{"type":"result","subtype":"success","is_error":false,"result":"%s","num_turns":1,"session_id":"s"}\\n'
    body = f"cat >/dev/null; {FIX}; printf '{told}' \"$ANTHROPIC_AUTH_TOKEN at $ANTHROPIC_BASE_URL\""
    place = program(tmp_path, "claude", f"#!/bin/sh\n{body}\n").parent
    with ScriptedEndpoint([]) as endpoint:
        env = local_model(endpoint.base_url, "anthropic_messages")
        env["PATH"] = f"{place}:{stack.environment()['PATH']}"
        words = ("--agent", "claude", "--model", "local-scripted")
        ran = stack("run", "Fix it", "--repo", str(small_repository), *words, *JUDGED, env=env)
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    assert receipt["model_used"] == "local-scripted"
    assert receipt["answer"] == f"{MASK} at {endpoint.base_url.removesuffix('/v1')}"


@pytest.mark.slow
def test_claude_code_goes_on_with_the_next_model_of_a_chain_where_the_first_is_overloaded(
    stack: Terminal, commands: Any, small_repository: Path, tmp_path: Path
):
    result = '{"type":"result","subtype":"success","is_error":%s,"api_error_status":%s,"result":"%s","num_turns":1}'
    bad, good = result % ("true", "529", "overloaded"), result % ("false", "null", "Repaired.")
    body = f"cat > said.$ANTHROPIC_MODEL; [ $ANTHROPIC_MODEL = two ] && {FIX} && echo '{good}' && exit 0; echo '{bad}'"
    place = program(tmp_path, "claude", f"#!/bin/sh\n{body}; exit 1\n").parent
    with ScriptedEndpoint([]) as endpoint:
        table = '[models.{}]\nbase_url = "{}"\nmodel = "{}"\nformat = "anthropic"\nchain = {}\n'
        first, second = (
            table.format(alias, endpoint.base_url, model, chain)
            for alias, model, chain in (("first-a", "one", '["second-a"]'), ("second-a", "two", "[]"))
        )
        commands("", place, f"\n{first}{second}")
        env = {"PATH": f"{place}:{stack.environment()['PATH']}"}
        words = ("run", "Fix it", "--repo", str(small_repository), "--agent", "claude", "--model", "first-a")
        ran = stack(*words, *JUDGED, env=env)
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    assert (receipt["model_used"], receipt["failed_over_from"]) == ("second-a", "first-a")
    assert [each["failure_kind"] for each in receipt["attempts"]] == ["overloaded", None]
    patch = (record(stack, receipt) / "patch.diff").read_text(encoding="utf-8")
    assert "+Another model (first-a) began the task below" in patch
