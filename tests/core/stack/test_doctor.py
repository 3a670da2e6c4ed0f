"""What doctor finds missing, and that it says how to get it."""

import json
import socket
from pathlib import Path

import pytest

from deployments.__main__ import main


@pytest.fixture(autouse=True)
def own_home(delegate_home: Path) -> Path:
    return delegate_home


def findings(capsys: pytest.CaptureFixture[str], expect: int) -> dict[str, dict[str, str | None]]:
    assert main(["doctor", "--json"]) == expect
    return {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}


def test_a_machine_without_git_is_told_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    found = findings(capsys, expect=2)
    assert found["git"]["verdict"] == "missing"
    assert "install git" in str(found["git"]["remedy"])
    assert found["codex"]["verdict"] == "optional"


def test_a_taken_port_is_named_with_its_holder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setenv("DELEGATE_SERVER_PORT", str(port))
        found = findings(capsys, expect=2)
    assert f"{port} is taken" in str(found["port"]["detail"])


def test_a_key_that_is_not_set_is_named(capsys: pytest.CaptureFixture[str], own_home: Path):
    file = own_home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[models.m]\nbase_url = "http://127.0.0.1:1/v1"\nkey = "env:MY_MISSING_KEY"\n')
    found = findings(capsys, expect=0)
    assert "MY_MISSING_KEY" in str(found["model m"]["detail"])


def test_a_healthy_machine_is_said_to_be_one(capsys: pytest.CaptureFixture[str]):
    found = findings(capsys, expect=0)
    assert found["database"]["verdict"] == "ok"
    assert "delegate up" in str(found["stack"]["remedy"])


def test_status_without_a_stack_exits_with_4(capsys: pytest.CaptureFixture[str]):
    assert main(["status"]) == 4
    assert "delegate up" in capsys.readouterr().err
