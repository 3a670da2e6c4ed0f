"""The terminal beside a real stack: what it does when there is none, and what it finds after a restart."""

import pytest

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


def test_an_unreachable_model_ends_as_a_failed_receipt(user: User):
    environ = {
        **user.environ,
        "DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1/chat/completions",
        "DELEGATE_LOCAL_MODEL": "local-x",
    }
    run = User(user.home, user.repo, environ).delegate("run", "x", "--json", "--key", "once")

    again = User(user.home, user.repo, environ).delegate("run", "x", "--json", "--key", "once")

    assert run.returncode == again.returncode == 1, run.stderr
    assert '"outcome":"failed","failure_kind":"unreachable"' in run.stdout
    assert again.stdout == run.stdout
    assert run.stdout.count("\n") == 1


def test_history_is_read_with_the_stack_down_and_by_number(user: User):
    user.delegate("down")

    listed = user.told("list")["delegations"]

    assert [line["number"] for line in listed] == [1]
    assert user.told("show", "1")["id"] == listed[0]["id"]
    assert user.delegate("wait", "1").returncode == 1
    assert user.processes() == []
