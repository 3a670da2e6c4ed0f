"""The scripted model server itself: turns by order and by conversation, and its life as a program."""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from delegation.reading.prompts import HAVE_THE_FILES
from delegation.scripted.endpoint import FAULTS, Call, Request, Script, ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[3]


def ask(base_url: str, *messages: dict[str, Any], model: str = "fake", **more: Any) -> httpx.Response:
    body = {"model": model, "messages": list(messages) or [{"role": "user", "content": "hi"}], **more}
    return httpx.post(f"{base_url}/chat/completions", json=body, trust_env=False, verify=False)


def said(response: httpx.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


def spoken(times: int, topic: str = "x") -> list[dict[str, Any]]:
    pair = [{"role": "user", "content": topic}, {"role": "assistant", "content": "ok"}]
    return [*pair * times, {"role": "user", "content": topic}]


def test_turns_come_in_order_and_then_the_script_says_that_it_is_over():
    with ScriptedEndpoint(["one", Turn(text="two", times=2)]) as endpoint:
        assert [said(ask(endpoint.base_url)) for _ in range(3)] == ["one", "two", "two"]
        over = ask(endpoint.base_url)
    assert (over.status_code, over.json()["error"]["message"]) == (400, "the script has no turn left")


def test_conversations_at_once_do_not_steal_each_others_turns():
    script = [f"turn {number}" for number in range(5)]
    wrong: list[str] = []
    with ScriptedEndpoint(script, by="session") as endpoint:

        def talk(topic: str) -> None:
            wrong.extend(
                topic for turn in range(5) if said(ask(endpoint.base_url, *spoken(turn, topic))) != f"turn {turn}"
            )

        threads = [threading.Thread(target=talk, args=(f"topic {number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(endpoint.calls) == 40
    assert wrong == []


def test_attempts_are_turns_for_the_same_request_coming_again():
    turn = Turn(attempts=(Turn(fault="500"), Turn(text="better")))
    with ScriptedEndpoint([turn], by="session") as endpoint:
        statuses = [ask(endpoint.base_url).status_code for _ in range(3)]
    assert statuses == [500, 200, 200]


def test_a_callable_decides_from_the_request():
    def decide(request: Request) -> Turn | str:
        return Turn(calls=(Call("submit"),)) if request.turn else f"{request.model} was offered {request.tools}"

    with ScriptedEndpoint(decide) as endpoint:
        tools = [{"type": "function", "function": {"name": "submit"}}]
        assert said(ask(endpoint.base_url, model="m", tools=tools)) == "m was offered ('submit',)"
        assert ask(endpoint.base_url, *spoken(1)).json()["choices"][0]["finish_reason"] == "tool_calls"


def test_a_model_and_a_case_have_turns_of_their_own():
    script = {"turns": ["else"], "by_model": {"b": ["of b"]}, "cases": [{"when": "blue", "turns": ["of blue"]}]}
    with ScriptedEndpoint(script) as endpoint:
        blue = {"role": "user", "content": "the blue one"}
        answers = [
            said(ask(endpoint.base_url, blue)),
            said(ask(endpoint.base_url, model="b")),
            said(ask(endpoint.base_url)),
        ]
    assert answers == ["of blue", "of b", "else"]


def test_a_misspelt_turn_is_refused():
    with pytest.raises(ValueError, match="txt"):
        ScriptedEndpoint([{"txt": "hi"}])


def test_an_unknown_fault_is_said():
    with ScriptedEndpoint([Turn(fault="no such")]) as endpoint:
        assert "no such" in ask(endpoint.base_url).text
    assert "529" in FAULTS


def test_a_wrong_key_is_refused():
    with ScriptedEndpoint(["hi"], key="right") as endpoint:
        assert ask(endpoint.base_url).status_code == 401
        right = {"authorization": "Bearer right"}
        body = {"model": "m", "messages": []}
        assert (
            httpx.post(f"{endpoint.base_url}/chat/completions", json=body, headers=right, verify=False).status_code
            == 200
        )


def test_models_health_head_and_count_are_served():
    with ScriptedEndpoint({"turns": [], "models": ["a", "b"]}) as endpoint:
        models = httpx.get(f"{endpoint.base_url}/models").json()
        assert [model["id"] for model in models["data"]] == ["a", "b"]
        assert httpx.get(endpoint.base_url.replace("/v1", "/health")).json() == {"status": "ok"}
        assert httpx.head(endpoint.base_url).status_code == 200
        assert (
            httpx.post(f"{endpoint.base_url}/messages/count_tokens", json={"messages": []}).json()["input_tokens"] > 0
        )
        assert endpoint.calls == []


def test_as_a_program_it_serves_a_script_file_and_logs(tmp_path: Path):
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    turns = [{"calls": [{"name": "run_bash", "input": {"command": "ls"}}]}, "Done."]
    script.write_text(json.dumps({"by": "session", "turns": turns}), encoding="utf-8")
    arguments = [sys.executable, "-m", "delegation.scripted", str(script), "--port", "0", "--log", str(log)]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base_url = server.stdout.readline().split()[0]
        try:
            answer = ask(base_url, *spoken(1))
        finally:
            server.terminate()
    assert said(answer) == "Done."
    assert [json.loads(line)["turn"] for line in log.read_text(encoding="utf-8").splitlines()] == [1]


def test_a_reader_of_files_begins_at_the_first_turn_and_goes_on_at_the_second():
    asked = [
        {"role": "user", "content": "the files"},
        {"role": "assistant", "content": HAVE_THE_FILES},
        {"role": "user", "content": "What is it?"},
    ]
    further = [*asked, {"role": "assistant", "content": "first"}, {"role": "user", "content": "And?"}]
    with ScriptedEndpoint(["first", "second"], by="session") as endpoint:
        assert [said(ask(endpoint.base_url, *each)) for each in (asked, further)] == ["first", "second"]


@pytest.mark.parametrize(
    ("script", "wrong"),
    [
        ({"turns": [], "by": "sesion"}, "`by` must be 'order' or 'session', not 'sesion'"),
        ({"turns": [], "bye": "session"}, "a script has no ['bye']"),
    ],
)
def test_a_script_that_is_misspelt_is_refused(script: dict[str, Any], wrong: str):
    with pytest.raises(ValueError, match=re.escape(wrong)):
        Script(script)
