"""The terminal beside a real stack: what it does when there is none, and what it finds after a restart."""

import pytest

from delegation.scripted.endpoint import ScriptedEndpoint
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
