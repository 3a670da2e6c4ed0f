"""One delegation from the terminal to the receipt, on real packages with their own test suites."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.flows.conftest import Terminal, local_model

pytestmark = pytest.mark.stack

BROKEN = "self.__currsize += size"
REPAIRED = "self.__currsize += diffsize"
VERIFY = "PYTHONPATH=src python -m pytest -q tests"


def editing(path: str, old: str, new: str, final: str = "Fixed; all tests pass."):
    """A model that looks, edits once and says it is done."""
    turns = (
        Turn(text="Looking.", calls=(Call("read_file", {"path": path, "offset": 1, "limit": 40}),)),
        Turn(calls=(Call("edit_file", {"path": path, "old_text": old, "new_text": new}),)),
        Turn(text=final, usage={"input": 100, "output": 20}),
    )
    return lambda request: turns[min(request.turn, 2)]


@pytest.mark.parametrize("format", ["openai_chat", "anthropic_messages"])
def test_a_repaired_package_is_verified_and_its_patch_applies(stack: Terminal, cachetools: Path, format: str):
    with ScriptedEndpoint(editing("src/cachetools/__init__.py", BROKEN, REPAIRED)) as endpoint:
        ran = stack(
            "run",
            "Fix it",
            "--repo",
            str(cachetools),
            "--verify",
            VERIFY,
            "--json",
            env=local_model(endpoint.base_url, format),
        )
    receipt = ran.json
    assert (ran.code, receipt["outcome"]) == (0, "verified"), ran.stderr
    verification = receipt["verification"]
    assert len(verification["fixed"]) == 18
    assert verification["newly_failing"] == []
    assert (verification["base"]["verdict"], verification["candidate"]["verdict"]) == ("failed", "passed")
    assert receipt["patch"]["insertions"] == receipt["patch"]["deletions"] == receipt["patch"]["files"] == 1
    assert receipt["turns"] == 3
    assert receipt["tool_calls"] == 2
    assert receipt["stop_reason"] == "submitted"
    assert receipt["claim"] == "Fixed; all tests pass."
    assert receipt["endpoints"] == [endpoint.base_url.removesuffix("/v1")]
    assert receipt["confined_by"].startswith("bubblewrap")
    patch = stack("patch", receipt["id"])
    assert hashlib.sha256(patch.stdout.encode()).hexdigest() == receipt["patch"]["sha256"]
    assert subprocess.run(["git", "status", "--porcelain"], cwd=cachetools, capture_output=True).stdout == b""
    assert stack("apply", receipt["id"]).code == 0
    assert REPAIRED in (cachetools / "src/cachetools/__init__.py").read_text()


def test_a_wrong_repair_is_refuted_whatever_the_model_claims(stack: Terminal, pluggy: Path):
    script = editing("src/pluggy/_manager.py", "return self.get_plugin(name) is None", "return True")
    with ScriptedEndpoint(script) as endpoint:
        ran = stack(
            "run",
            "Fix it",
            "--repo",
            str(pluggy),
            "--verify",
            "PYTHONPATH=src python -m pytest -q testing",
            "--json",
            env=local_model(endpoint.base_url),
        )
    assert (ran.code, ran.json["outcome"]) == (1, "refuted"), ran.stderr
    assert "claim_differs" in ran.json["flags"]
    assert ran.json["verification"]["still_failing"] == ["testing/test_pluginmanager.py::test_has_plugin"]


@pytest.mark.parametrize("format", ["openai_chat", "anthropic_messages"])
def test_no_change_is_no_change(stack: Terminal, cachetools: Path, format: str):
    with ScriptedEndpoint(lambda _: Turn(text="There is nothing to do here.")) as endpoint:
        ran = stack(
            "run",
            "Fix it",
            "--repo",
            str(cachetools),
            "--verify",
            VERIFY,
            "--json",
            env=local_model(endpoint.base_url, format),
        )
    assert (ran.code, ran.json["outcome"], ran.json["patch"]) == (1, "no_change", None), ran.stderr


def test_an_answer_is_answered_and_needs_no_git(stack: Terminal, tmp_path: Path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "notes.txt").write_text("The tower is 300 m high.\n")
    with ScriptedEndpoint(lambda _: Turn(text="300 m.")) as endpoint:
        ran = stack(
            "run",
            "How high?",
            "--repo",
            str(tmp_path / "plain"),
            "--expects",
            "answer",
            "--json",
            env=local_model(endpoint.base_url),
        )
    assert (ran.code, ran.json["outcome"], ran.json["answer"]) == (0, "answered", "300 m."), ran.stderr
    assert ran.json["base_commit"] is None


def test_an_unreachable_endpoint_ends_as_a_failed_receipt(stack: Terminal, small_repository: Path):
    ran = stack(
        "run",
        "Fix it",
        "--repo",
        str(small_repository),
        "--timeout",
        "5",
        "--json",
        env=local_model("http://127.0.0.1:9/v1"),
    )
    assert (ran.code, ran.json["outcome"], ran.json["failure_kind"]) == (1, "failed", "unreachable"), ran.stderr
    assert "127.0.0.1:9" in ran.json["failure_message"]


def test_the_same_key_twice_is_one_delegation(stack: Terminal, small_repository: Path):
    with ScriptedEndpoint(editing("adding.py", "a - b", "a + b")) as endpoint:
        words = ("run", "Fix it", "--repo", str(small_repository), "--key", f"once-{small_repository}", "--json")
        first = stack(*words, env=local_model(endpoint.base_url))
        second = stack(*words, env=local_model(endpoint.base_url))
        other = stack(*words, "--max-turns", "3", env=local_model(endpoint.base_url))
    assert first.json == second.json
    assert len(endpoint.calls) == 3
    assert other.code == 2
    assert "already stands for" in other.stderr


def test_two_clients_share_a_stack_and_reach_only_their_own_endpoint(stack: Terminal, small_repository: Path):
    with (
        ScriptedEndpoint(lambda _: Turn(text="one"), key="sk-1") as one,
        ScriptedEndpoint(lambda _: Turn(text="two"), key="sk-2") as two,
    ):
        running = [
            stack.start(
                "run",
                "Say it",
                "--repo",
                str(small_repository),
                "--expects",
                "answer",
                "--json",
                env={**local_model(endpoint.base_url), "DELEGATE_LOCAL_KEY": key},
            )
            for endpoint, key in ((one, "sk-1"), (two, "sk-2"))
        ]
        receipts = [json.loads(process.communicate(timeout=170)[0]) for process in running]
    assert [receipt["answer"] for receipt in receipts] == ["one", "two"]
    assert [len(endpoint.calls) for endpoint in (one, two)] == [1, 1]
    assert [receipt["endpoints"] for receipt in receipts] == [
        [one.base_url.removesuffix("/v1")],
        [two.base_url.removesuffix("/v1")],
    ]


def test_a_task_over_prefects_limit_travels_whole(stack: Terminal, small_repository: Path, tmp_path: Path):
    task = tmp_path / "task.md"
    task.write_text("Say how long this is.\n" + "x" * 600_000 + " END")
    seen: list[Request] = []

    def answer(request: Request) -> Turn:
        seen.append(request)
        return Turn(text="long")

    with ScriptedEndpoint(answer) as endpoint:
        ran = stack(
            "run",
            "--task-file",
            str(task),
            "--repo",
            str(small_repository),
            "--expects",
            "answer",
            "--json",
            env=local_model(endpoint.base_url),
        )
    assert ran.json["outcome"] == "answered", ran.stderr
    assert "x" * 600_000 + " END" in seen[0].text


def test_verifying_again_costs_no_model_call_and_keeps_the_first_receipt(stack: Terminal, small_repository: Path):
    flag = small_repository.parent / "good"
    verify = f"test -e {flag}"
    with ScriptedEndpoint(editing("adding.py", "a - b", "a + b")) as endpoint:
        first = stack(
            "run",
            "Fix it",
            "--repo",
            str(small_repository),
            "--verify",
            verify,
            "--json",
            env={**local_model(endpoint.base_url), "DELEGATE_CONFINEMENT": "off"},
        )
        calls = len(endpoint.calls)
        flag.touch()
        second = stack("rerun", first.json["id"], "--from", "verify", "--json")
    assert (first.code, first.json["outcome"]) == (1, "refuted"), first.stderr
    assert (second.code, second.json["outcome"]) == (0, "verified"), second.stderr
    assert len(endpoint.calls) == calls == 3
    assert second.json["id"] == first.json["id"]
    record = stack.home / "delegations" / first.json["id"]
    assert json.loads((record / "receipt.1.json").read_text())["outcome"] == "refuted"


def test_cancelling_in_a_tool_call_leaves_no_process_and_keeps_the_work(stack: Terminal, small_repository: Path):
    turns = (
        Turn(calls=(Call("write_file", {"path": "new.txt", "content": "half\n"}),)),
        Turn(calls=(Call("run_bash", {"command": "echo begun > begun.txt; sleep 987"}),)),
    )
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 1)]) as endpoint:
        started = stack(
            "run", "Work", "--repo", str(small_repository), "--no-wait", "--json", env=local_model(endpoint.base_url)
        )
        assert started.code == 0, started.stderr
        endpoint.wait_for(2, timeout_seconds=60)
        wait_until_running("sleep 987")
        cancelled = stack("cancel", started.json["id"], "--json")
        receipt = stack("wait", started.json["id"], "--json").json
    assert cancelled.code == 0, cancelled.stderr
    assert receipt["outcome"] == "cancelled"
    assert receipt["patch"]["files"] == 2
    assert (receipt["turns"], receipt["usage"]["requests"], receipt["stop_reason"]) == (2, 2, "cancelled")
    assert "partial" in receipt["flags"]
    assert not is_running("sleep 987")


def is_running(command: str) -> bool:
    return subprocess.run(["pgrep", "-f", f"^{command}"], capture_output=True).returncode == 0


def wait_until_running(command: str, timeout_seconds: float = 30) -> None:
    import time

    end = time.monotonic() + timeout_seconds
    while not is_running(command):
        assert time.monotonic() < end, f"{command!r} never ran"
        time.sleep(0.05)
