"""`delegate analyze, query, resume, pack, sessions` and the tools: no stack, a provider on loopback."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from front import ROOT, Front, Ran
from mcp import Client
from readers import provider
from stdio_server import server, stderr_of

from delegation.reading.kept import Later
from delegation.scripted.endpoint import ScriptedEndpoint, Turn
from delegation.stack_state import running_stack, write_state
from mcp_entry.mcp_server.server import build
from tests.core.front.mcp_client import called, text_of

Call = Callable[..., Ran]
HEADER = r"\[delegate {}\] provider=cheap model=model-of-cheap in=100 out=20 session=(rd-\S+)"


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    def answer(request) -> Turn:
        said = str(request.messages[-1]["content"])
        return Turn(fault="500") if "fail" in said else Turn(f"answer to {said.splitlines()[-1]}")

    with ScriptedEndpoint(answer) as serving:
        yield serving


@pytest.fixture
def config(front: Front, endpoint: ScriptedEndpoint) -> Path:
    path = front.repo.parent / "readers.json"
    path.write_text(json.dumps({"providers": [provider("cheap", endpoint.base_url)]}), encoding="utf-8")
    path.chmod(0o600)
    front.environ["DELEGATE_MCP_CONFIG"] = str(path)
    return path


@pytest.mark.parametrize("how", ["argument", "dash", "pipe", "file"])
def test_a_folder_is_asked_about_with_a_prompt_from_anywhere(front: Front, call: Call, config: Path, how: str):
    (front.repo / "p.txt").write_text("what?")
    words, stdin = {
        "argument": (("what?",), ""), "dash": (("-",), "what?"), "pipe": ((), "what?"),
        "file": (("--task-file", "p.txt"), ""),
    }[how]  # fmt: skip
    ran = call("analyze", ".", *words, stdin=stdin)
    header, answer = ran.stdout.splitlines()[:2]
    assert (ran.code, answer) == (0, "answer to what?"), ran.stderr
    assert re.fullmatch(HEADER.format("analyze"), header)
    assert "api_key is written out in the file" in ran.stderr


def test_a_session_goes_on_and_is_listed_and_pruned(front: Front, call: Call, config: Path, endpoint):
    first = call("query", "one")
    session = re.search(r"session=(\S+)", first.stdout)[1]
    ran = call("resume", session, "two")
    assert re.fullmatch(HEADER.format("resume"), ran.stdout.splitlines()[0])[1] == session
    assert [message["content"] for message in endpoint.calls[-1].messages[1:]] == ["one", "answer to one", "two"]
    listed = json.loads(call("sessions", "--json").stdout)["sessions"]
    assert [(each["id"], each["turns"]) for each in listed] == [(session, 2)]
    assert session in call("sessions").stdout
    assert call("sessions", "prune").stdout == "removed 0 session(s) and 0 pack(s), 0 bytes\n"


def test_with_json_one_object_is_printed_and_the_exit_code_tells_the_rest(front: Front, call: Call, config: Path):
    good, bad = call("query", "one", "--json"), call("query", "fail", "--json")
    told = json.loads(good.stdout)
    assert (good.code, told["outcome"], told["answer"], told["input_tokens"]) == (0, "answered", "answer to one", 100)
    failed = json.loads(bad.stdout)
    assert (bad.code, failed["outcome"], failed["failure_kind"]) == (1, "failed", "overloaded")
    assert failed["message"].startswith("all 1 provider(s) failed; last error: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("query", ""), "the prompt is empty"),
        (("analyze", "nowhere", "x"), "there is no folder or file"),
        (("resume", "../../etc/passwd", "x"), "is not a session id"),
        (("resume", "rd-20261130t160527291-fvre", "x"), "rd-20261130t160527291-fvre"),
        (("query", "x", "--max-output-tokens", "0"), "--max-output-tokens must be a whole number above 0"),
        (("query", "x", "--json-schema", "nowhere.json"), "nowhere.json"),
        (("query", "x", "--config", "nowhere.json"), "no delegate-mcp config found"),
        (("query", "x", "--model", "nobody"), "unknown model 'nobody'"),
    ],
)
def test_what_cannot_be_asked_is_usage_and_nothing_is_sent(
    front: Front, call: Call, config: Path, words, said, endpoint
):
    ran = call(*words)
    assert (ran.code, ran.stdout, endpoint.calls) == (2, "", [])
    assert said in ran.stderr


@pytest.mark.parametrize(
    ("words", "tool", "said"),
    [
        (("analyze", "nowhere", "what?"), "analyze", "there is no folder or file"),
        (("query", "what?", "--model", "nobody"), "query", "nobody"),
        (("resume", "rd-20261130t160527291-fvre", "what?"), "resume", "there is no session"),
    ],
)
def test_a_call_that_is_refused_has_its_line_of_metrics(front: Front, call: Call, config: Path, words, tool, said):
    assert call(*words).code == 2
    (line,) = (front.home / "reading" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    told = json.loads(line)
    assert (told["tool"], told["status"], told["provider"], told["input_bytes"]) == (tool, "error", "-", 5)
    assert said in told["message"]


def test_an_answer_fits_the_schema_of_a_file(front: Front, call: Call, config: Path, endpoint):
    (front.repo / "s.json").write_text('{"type": "array"}')
    endpoint.script._decide = lambda request: Turn("[1, 2]")
    assert json.loads(call("query", "x", "--json-schema", "s.json", "--json").stdout)["data"] == [1, 2]


def test_pack_lists_every_file_and_every_skip_with_its_reason_and_sends_nothing(
    front: Front, call: Call, config, endpoint
):
    (front.repo / "id_rsa").write_text("x")
    (front.repo / "id_utils.py").write_text("y = 1\n")
    listed = call("pack", ".", "--list")
    assert [line.split()[-1] for line in listed.stdout.splitlines()[:2]] == ["calc.py", "id_utils.py"]
    assert "left out: id_rsa: excluded" in listed.stdout
    assert listed.stdout.splitlines()[-1].startswith("2 file(s), 38 bytes, about ")
    assert "--- file: calc.py ---" in call("pack", ".").stdout
    manifest = json.loads(call("pack", ".", "--json").stdout)
    assert [each["path"] for each in manifest["files"]] == ["calc.py", "id_utils.py"]
    assert endpoint.calls == []


def test_an_older_stack_that_knows_no_reading_stops_no_question(stacked: Front, call: Call, config: Path):
    ran = call("query", "one")
    assert (ran.code, ran.stdout.splitlines()[1]) == (0, "answer to one"), ran.stderr
    assert [entry.state for entry in Later(stacked.settings.home).entries()] == ["COMPLETED"]
    assert list((stacked.settings.home.reading / "questions").iterdir()) == []


def test_the_process_of_a_question_carries_the_mark_by_which_down_finds_it(
    stacked: Front, call: Call, config: Path, tmp_path: Path
):
    told = tmp_path / "environment.json"
    script = f"import json, os; open({str(told)!r}, 'w').write(json.dumps(dict(os.environ)))"
    state = running_stack(stacked.settings.home)
    marked = {"mark": "mark-of-this-test", "launcher_command": (sys.executable, "-S", "-c", script)}
    write_state(stacked.settings.home, state.model_copy(update=marked))
    assert call("query", "one").code == 0
    assert json.loads(told.read_text(encoding="utf-8"))["DELEGATE_STACK"] == "mark-of-this-test"


def test_a_question_of_a_terminal_loads_only_what_it_needs(front: Front, config: Path):
    ran = front.delegate("query", "one", PYTHONPROFILEIMPORTTIME="1")
    assert ran.code == 0
    needless = {
        "rich",
        "click",
        "h2.connection",
        "pathspec",
        "delegation.reading.packing.pack",
        "jsonschema",
        "sqlalchemy",
    }
    assert loaded(ran) & (needless | {"prefect", "mcp"}) == set()
    assert loaded(ran) >= {"httpx", "delegation.reading.answering"}


def test_where_a_stack_runs_a_terminal_loads_no_client_for_the_question(stacked: Front, config: Path):
    told = {"failure_kind": None, "error": "usage", "message": "of this test"}
    folder = stacked.home / "reading" / "questions"
    script = (
        f"import os; path = {str(folder)!r} + '/' + os.environ['DELEGATE_QUESTION'] + '.failure'; "
        f"open(path + '~', 'w').write({json.dumps(told)!r}); os.rename(path + '~', path)"
    )
    state = running_stack(stacked.settings.home)
    write_state(stacked.settings.home, state.model_copy(update={"launcher_command": (sys.executable, "-c", script)}))
    ran = stacked.delegate("query", "one", PYTHONPROFILEIMPORTTIME="1")
    assert (ran.code, ran.stderr.splitlines()[-1]) == (2, "delegate: of this test")
    assert loaded(ran) & {"httpx", "httpcore", "delegation.reading.answering", "sqlalchemy"} == set()


def loaded(ran: Ran) -> set[str]:
    """What the program has imported, as the interpreter tells."""
    return {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.anyio
async def test_the_three_tools_answer_in_text_with_the_fixed_first_line(
    front: Front, config: Path, mode: str, endpoint
):
    text = text_of(await called(front, "analyze", {"work_dir": str(front.repo), "prompt": "what?"}, mode))
    session = re.fullmatch(HEADER.format("analyze"), text.splitlines()[0])[1]
    assert text.splitlines()[1:] == ["answer to what?"]
    text = text_of(await called(front, "resume", {"session_id": session, "prompt": "and?"}, mode))
    assert re.fullmatch(HEADER.format("resume"), text.splitlines()[0])
    arguments = {"prompt": "why?", "max_output_tokens": 10}
    text = text_of(await called(front, "query", arguments, mode))
    assert re.fullmatch(HEADER.format("query") + "\nanswer to why\\?", text)
    assert endpoint.calls[-1].body["max_tokens"] == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("query", {"prompt": "fail"}, "all 1 provider(s) failed; last error: "),
        ("analyze", {"work_dir": "/nowhere", "prompt": "x"}, "there is no folder or file '/nowhere'"),
        ("resume", {"session_id": "rd-20261130t160527291-fvre", "prompt": "x"}, "rd-20261130t160527291-fvre"),
        ("resume", {"session_id": "../x", "prompt": "x"}, "is not a session id"),
    ],
)
async def test_failures_are_error_results_and_the_server_goes_on(front: Front, config, mode, tool, arguments, said):
    async with Client(build(front.service), mode=mode) as connected:
        result = await connected.call_tool(tool, arguments)
        assert result.is_error
        assert said in text_of(result)
        assert not (await connected.call_tool("query", {"prompt": "x"})).is_error


@pytest.mark.anyio
async def test_a_call_that_is_given_up_ends_its_request(front: Front, config: Path, endpoint):
    endpoint.script._decide = lambda request: Turn("late", delay_seconds=60)

    async def give_up_when_asked() -> None:
        await anyio.to_thread.run_sync(lambda: endpoint.wait_for(1, 60))
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(give_up_when_asked)
        await called(front, "query", {"prompt": "x"})
    await anyio.to_thread.run_sync(endpoint.wait_gone)


@pytest.mark.anyio
async def test_a_configuration_found_at_a_usual_place_that_is_not_valid_is_told_by_its_tools(front: Front, mode: str):
    front.environ["HOME"] = str(front.home / "user")
    path = front.home / "user" / ".delegate-mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"providers": [{"name": "p", "base_url": "http://h/v1", "api_key": "env:GONE", "default_model": "m"}]}'
    )
    result = await called(front, "query", {"prompt": "x"}, mode)
    assert result.is_error
    assert 'api_key references environment variable "GONE", but it is not set' in text_of(result)


@pytest.mark.parametrize("how", ["--config", "-c", "variable"])
def test_a_named_configuration_that_is_not_valid_ends_the_server(front: Front, how: str):
    (front.repo / "bad.json").write_text('{"providers": []}')
    words = ["mcp", *([] if how == "variable" else [how, "bad.json"])]
    environ = {"DELEGATE_MCP_CONFIG": str(front.repo / "bad.json")} if how == "variable" else {}
    done = front.delegate(*words, **environ)
    assert (done.code, done.stdout) == (2, "")
    assert "providers: must be a list with at least one provider" in done.stderr


def test_the_tools_are_offered_only_where_somebody_can_be_asked(front: Front, config: Path):
    def names(*words: str) -> set[str]:
        with server(front, ["-m", "mcp_entry", "mcp", *words]) as serving:
            serving.greet()
            serving.send("tools/list", 1)
            return {tool["name"] for tool in serving.answer(1)["result"]["tools"]}

    reading = {"analyze", "query", "resume"}
    assert reading <= names("--config", str(config))
    assert "api_key is written out in the file" in stderr_of(front).read_text()
    for name in ("DELEGATE_MCP_CONFIG", "DELEGATE_LOCAL_URL", "DELEGATE_LOCAL_KEY", "DELEGATE_LOCAL_MODEL"):
        front.environ.pop(name)
    without = names()
    assert not reading & without
    assert "delegate_task" in without


def test_ctrl_c_ends_the_request(front: Front, config: Path, endpoint: ScriptedEndpoint):
    endpoint.script._decide = lambda request: Turn("late", delay_seconds=60)
    child = subprocess.Popen(
        [sys.executable, "-m", "mcp_entry", "query", "x"], cwd=front.repo,
        env={**front.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child:
        endpoint.wait_for(1, 30)
        child.send_signal(signal.SIGINT)
        try:
            assert "the question was given up" in child.communicate(timeout=30)[1]
        finally:
            child.kill()
    assert child.returncode == 3
    endpoint.wait_gone()
