"""The terminal beside a real stack: what it does when there is none, and what it finds after a restart."""

import os
import signal
import subprocess
import sys
import time

import pytest
import waiting

from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from tests.front.conftest import User

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


def test_the_stack_comes_up_is_told_of_and_goes_down(user: User):
    assert user.delegate("ui").returncode == 4

    up = user.told("up")
    again = user.told("up")
    url = user.told("ui")["url"]
    status = user.delegate("status", "--json")
    down = user.delegate("down")

    assert up["ui_url"] == again["ui_url"] == url
    assert status.returncode == 0
    assert down.returncode == 0, down.stderr
    assert user.delegate("status").returncode == 4
    assert user.delegate("down").returncode == 0
    assert user.processes() == []


def test_a_refused_key_ends_as_a_failed_receipt_and_the_callers_key_finds_it_again(user: User):
    with ScriptedEndpoint(("never said",), key="sk-right") as endpoint:
        model = {
            "DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions",
            "DELEGATE_LOCAL_KEY": "sk-wrong",
            "DELEGATE_LOCAL_MODEL": "openai-x",
        }
        caller = User(user.home, user.repo, {**user.environ, **model})
        run = caller.delegate("run", "x", "--json", "--key", "once")
        again = caller.delegate("run", "x", "--json", "--key", "once")

    assert run.returncode == again.returncode == 1, run.stderr
    assert '"outcome":"failed","failure_kind":"auth"' in run.stdout
    assert again.stdout == run.stdout
    assert run.stdout.count("\n") == 1
    assert "sk-wrong" not in run.stdout + run.stderr


def test_history_is_read_with_the_stack_down_and_by_number(user: User):
    user.delegate("down")

    listed = user.told("list")["delegations"]

    assert [line["number"] for line in listed] == [1]
    assert user.told("show", "1")["id"] == listed[0]["id"]
    assert user.delegate("wait", "1").returncode == 1
    assert user.processes() == []


def test_a_killed_server_is_waited_for_by_fresh_calls_while_its_keeper_lives(user: User):
    with ScriptedEndpoint([Turn(text="All is well.", delay_seconds=25.0, times=1), *["All is well."] * 9]) as endpoint:
        model = {"DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions", "DELEGATE_LOCAL_MODEL": "openai-y"}
        caller = User(user.home, user.repo, {**user.environ, **model})
        started = caller.told("run", "what is it?", "--expects", "answer", "--no-wait")
        until(lambda: endpoint.requests)
        os.kill(server_of(user), signal.SIGKILL)
        time.sleep(2)
        waiting = start(caller, "wait", started["id"])
        fresh = start(caller, "run", "and this?", "--expects", "answer")
        (waited, _), (ran, said) = waiting.communicate(timeout=150), fresh.communicate(timeout=150)

    assert (waiting.returncode, fresh.returncode) == (0, 0), said
    assert "All is well." in waited
    assert "All is well." in ran
    assert "starting the stack" not in said


def start(caller: User, *words: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "mcp_entry", *words]
    return subprocess.Popen(
        argv,
        cwd=caller.repo,
        env=caller.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def server_of(user: User) -> int:
    """The one process of this home that is Prefect's server."""
    found = [line for line in user.processes() if "-m deployments.quiet_server" in line]
    return min(int(line.split()[0]) for line in found)


def until(holds) -> None:
    waiting.until(holds, 60, pause_seconds=0.1)
