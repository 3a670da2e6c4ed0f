"""One completion, an agent in a folder, a batch, and a provider named in the call, on the real stack."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from tests.flows.conftest import DELEGATE, Terminal, local_model

pytestmark = pytest.mark.stack
USAGE = {"input": 1200, "output": 34}
RETIRED = {
    "error": {"message": "The model `fake` does not exist", "type": "not_found_error", "code": "model_not_found"}
}


def answering(request: Request) -> Turn:
    """Says what it was asked; an agent writes a file first."""
    if request.tools and not request.turn:
        return Turn(calls=(Call("write_file", {"path": "made.txt", "content": "made\n"}),), usage=USAGE)
    asked = str(request.messages[-1]["content"] if not request.tools else "the file is made")
    return Turn(text=f"You said: {asked}", usage=USAGE, cost_usd=0.0125)


def test_one_completion_is_a_delegation_like_every_other(stack: Terminal):
    with ScriptedEndpoint(answering) as endpoint:
        env = local_model(endpoint.base_url)
        ran = stack("task", "What is 2+2?", "--system-prompt", "Be brief.", "--capture-transcript", env=env)
        listed = stack("list", "--limit", "1", "--json").json["delegations"][0]
        receipt = stack("show", str(listed["number"]), "--json").json
        retried = stack("rerun", receipt["id"], "--json", env=env)
    number = listed["number"]
    assert (ran.code, ran.stdout) == (
        0,
        "You said: What is 2+2?\n\n"
        f"[tokens: 1200 prompt / 34 completion / 1234 total ($0.012500)]\n[delegation_id: {number}]\n",
    )
    asked = endpoint.requests[0]
    assert [message["content"] for message in asked.messages] == ["Be brief.", "What is 2+2?"]
    assert not asked.tools
    assert (receipt["outcome"], receipt["turns"], receipt["max_turns"], receipt["patch"]) == ("answered", 1, 1, None)
    assert receipt["flow_run_id"]
    assert Path(receipt["repo"]).name == "no-repository"
    assert list(Path(receipt["repo"]).iterdir()) == []
    assert (retried.code, retried.json["parent_id"]) == (0, receipt["id"])
    assert endpoint.requests[1].messages == asked.messages


def test_an_agent_works_in_the_folder_itself_with_the_tools_that_the_callers_settings_give(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    def outside(request: Request) -> Turn:
        turns = (
            Turn(calls=(Call("write_file", {"path": "made.txt", "content": "made\n"}),), usage=USAGE),
            Turn(calls=(Call("write_file", {"path": str(tmp_path / "outside.txt"), "content": "out\n"}),), usage=USAGE),
            Turn(text="Both are made.", usage=USAGE),
        )
        return turns[request.turn]

    settings = {"DELEGATE_RUN_BASH": "0", "DELEGATE_ALLOW_PATH_ESCAPE": "1"}
    with ScriptedEndpoint(outside) as endpoint:
        env = local_model(endpoint.base_url) | settings
        ran = stack("agentic", "Make the files", "--dir", str(small_repository), env=env)
        receipt = stack("show", stack("list", "--limit", "1", "--json").json["delegations"][0]["id"], "--json").json
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "Both are made."), ran.stderr
    assert (small_repository / "made.txt").read_text() == "made\n"
    assert (tmp_path / "outside.txt").read_text() == "out\n"
    assert set(endpoint.requests[0].tools) == {"read_file", "write_file", "edit_file", "list_files", "search_files"}
    assert (receipt["max_turns"], receipt["outcome"], receipt["patch"]["files"]) == (20, "answered", 1)


def test_a_withdrawn_model_is_one_line_and_its_stack_is_there_when_asked_for(stack: Terminal):
    with ScriptedEndpoint(lambda _: Turn(status=404, body=RETIRED)) as endpoint:
        env = local_model(endpoint.base_url)
        ran = stack("task", "Hello", env=env)
        loud = stack("task", "Hello", "--traceback", env=env)
    assert (ran.code, ran.stdout) == (1, "")
    assert [line for line in ran.stderr.splitlines() if not line.startswith("delegate: ")] == [
        line
        for line in ran.stderr.splitlines()
        if line.startswith("Error: the endpoint does not serve this model (any more): ")
    ]
    assert ran.stderr.count("Error: ") == 1
    assert (loud.code, "Traceback (most recent call last)" in loud.stderr) == (1, True)
    assert "EndpointError" in loud.stderr


def test_a_batch_of_both_kinds_leaves_a_file_for_each_and_keeps_its_bound(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    met = threading.Event()

    def together(request: Request) -> Turn:
        """Answers once two are asking at the same time, and late enough for a third to show."""
        if "fail" in request.text:
            return Turn(status=404, body=RETIRED)
        if endpoint.busy >= 2:
            met.set()
        assert met.wait(120), "no two at once"
        return Turn(text=f"answer to {request.messages[-1]['content']}", delay_seconds=1.0, usage=USAGE)

    jobs = tmp_path / "jobs.jsonl"
    lines = [{"name": f"question {number}", "task": f"q{number}"} for number in range(5)]
    lines += [{"name": "bad", "prompt": "fail"}, {"name": "work", "task": "look", "dir": str(small_repository)}]
    jobs.write_text("# jobs\n\n" + "\n".join(map(json.dumps, lines)) + "\n")
    out = tmp_path / "out"
    with ScriptedEndpoint(together) as endpoint:
        env = local_model(endpoint.base_url) | {"DELEGATE_MAX_CONCURRENCY": "2"}
        ran = stack("batch", str(jobs), "--out-dir", str(out), env=env)
    assert (ran.code, ran.stdout) == (1, ""), ran.stderr
    texts = {path.stem: path.read_text() for path in out.iterdir()}
    assert set(texts) == {line["name"] for line in lines}
    assert texts["question 3"] == "answer to q3\n\n[tokens: 1200 prompt / 34 completion / 1234 total]\n"
    assert texts["bad"].startswith("Error: the endpoint does not serve this model")
    assert texts["work"].startswith("answer to ")
    assert endpoint.most_busy == 2


def test_tools_of_the_mcp_server_answer_with_texts_batches_and_a_provider(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    with ScriptedEndpoint(answering, key="sk-of-the-call") as provider, ScriptedEndpoint(answering) as own:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("delegate_task", {"prompt": "Hi", "capture_transcript": True}),
            ("delegate_task", {"prompt": "Hi", "backend": "nobody"}),
            ("delegate_agentic_task", {"task": "Make it", "working_dir": str(small_repository), "max_iterations": 1}),
            (
                "delegate_batch",
                {"tasks": [{"task": "one", "workdir": str(tmp_path / "none")}, {"task": "two"}], "wait_seconds": 120},
            ),
            (
                "delegate_to_provider",
                {
                    "provider_url": f"{provider.base_url}/chat/completions", "api_key": "sk-of-the-call",
                    "model": "openai-other", "task": "Make it", "wait_seconds": 120,
                },
            ),
        ]  # fmt: skip
        env = stack.environment(local_model(own.base_url) | {"CLAUDE_PROJECT_DIR": str(small_repository)})
        results = anyio.run(called, env, calls)
    plain, unknown, capped, batch, other = results
    assert plain.content[0].text.startswith("You said: Hi\n\n[tokens: 1200 prompt / 34 completion / 1234 total (")
    assert plain.content[0].text.splitlines()[-1].startswith("[delegation_id: ")
    assert unknown.content[0].text.startswith("Error: unknown model 'nobody'")
    assert not unknown.is_error
    assert capped.content[0].text.startswith("Error: the turn limit was reached")
    first, second = batch.structured_content["results"]
    assert "does not exist" in first["error"]
    assert (second["outcome"], second["text"]) == ("unverified", "You said: the file is made")
    view = other.structured_content
    assert (view["outcome"], view["model"], view["patch"]["files"]) == ("unverified", "openai-other", 1)
    assert {request.headers["authorization"] for request in provider.requests} == {"Bearer sk-of-the-call"}
    assert not {request.headers.get("authorization") for request in own.requests} & {"Bearer sk-of-the-call"}
    assert [path.name for path in (stack.home / "secrets").iterdir() if path.name.startswith("own-")] == []
    assert not files_with(stack.home, "sk-of-the-call")


async def called(env: dict[str, str], calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The results of these calls, all made at the same time by one client."""
    results: list[Any] = [None] * len(calls)
    server = StdioServerParameters(command=str(DELEGATE), args=["mcp"], env=env)

    async def one(connected: Client, place: int) -> None:
        results[place] = await connected.call_tool(*calls[place])

    async with Client(stdio_client(server)) as connected, anyio.create_task_group() as group:
        for place in range(len(calls)):
            group.start_soon(one, connected, place)
    return results


def files_with(folder: Path, secret: str) -> list[str]:
    """Files below the folder that hold the text, the database's own included."""
    found = subprocess.run(["grep", "-rlaF", secret, str(folder)], capture_output=True, text=True)
    return found.stdout.splitlines()


def test_a_scripted_bifrost_is_asked_by_lane_and_names_who_answered(stack: Terminal):
    def gateway(request: Request) -> Turn:
        local = request.model.startswith("local-")
        headers = {"x-bifrost-routing-info-provider": "vendor", "x-bifrost-routing-info-model": "qwen3.6-35b"}
        if not local:
            headers = {
                "x-bifrost-routing-info-provider": "zai", "x-bifrost-routing-info-model": "glm-5.2",
                "x-bifrost-routing-info-is-fallback": "true",
            }  # fmt: skip
        return Turn(text="Done.", model=request.model, headers=headers, usage=USAGE)

    with ScriptedEndpoint(gateway) as bifrost, ScriptedEndpoint(gateway) as local:
        env = {
            "DELEGATE_GATEWAY": "bifrost",
            "DELEGATE_BIFROST_URL": bifrost.base_url.removesuffix("/v1"),
            "DELEGATE_BIFROST_LOCAL_URL": f"{local.base_url.removesuffix('/v1')}/",
            "DELEGATE_BIFROST_VK_LOCAL": "vk-local",
            "DELEGATE_BIFROST_VK_CODE": "vk-code",
        }
        receipts = {
            (model, api): stack(
                "task", "Hi", "--model", model, "--json", env=env | ({"DELEGATE_BIFROST_API": api} if api else {})
            ).json
            for model in ("local-qwen-3-6-35b", "deepseek-v4-flash", "glm-coding-plan")
            for api in ("", "openai")
        }
    told = [(request.path, request.model, request.headers["authorization"]) for request in bifrost.requests]
    assert told == [
        ("/litellm/v1/chat/completions", "deepseek-v4-flash", "Bearer vk-code"),
        ("/litellm/v1/chat/completions", "deepseek-v4-flash", "Bearer vk-code"),
        ("/litellm/v1/messages", "glm-coding-plan", "Bearer vk-code"),
        ("/litellm/v1/chat/completions", "glm-coding-plan", "Bearer vk-code"),
    ]
    assert [(request.path, request.headers["authorization"]) for request in local.requests] == [
        ("/litellm/v1/messages", "Bearer vk-local"),
        ("/litellm/v1/chat/completions", "Bearer vk-local"),
    ]
    for (model, _), receipt in receipts.items():
        own = model.startswith("local-")
        assert receipt["response_model"] == ("qwen3.6-35b" if own else "glm-5.2")
        note = None if own else f"answered_by: glm-5.2 (requested {model})"
        assert (receipt["outcome"], receipt["fallback_note"]) == ("answered", note)
