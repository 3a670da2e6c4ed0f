"""Whatever a client writes into `delegate mcp`: each request is answered, and the server lives on."""

import json
from typing import Any

import pytest
from front import Front
from stdio_server import Server, server

from mcp_entry.mcp_server.incoming import judged


def refusal(line: str) -> tuple[Any, int]:
    readable, answer = judged(line)
    assert readable is None
    assert answer is not None
    return answer["id"], answer["error"]["code"]


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ("this is not JSON", None, -32700),
        ("{", None, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": ', 7, -32700),
        ('{"jsonrpc": "2.0", "params": {"id": 3}, "id": "a:1", "method": x}', "a:1", -32700),
        ("[]", None, -32600),
        ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None, -32600),
        ("42", None, -32600),
        ('{"id": 8, "method": "ping"}', 8, -32600),
        ('{"jsonrpc": "1.0", "id": 8, "method": "ping"}', 8, -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": [1]}', 9, -32600),
        ('{"jsonrpc": "2.0", "id": 9, "method": 5}', 9, -32600),
        (f'{{"jsonrpc": "2.0", "method": "x", "params": {{"a": {"[" * 100_000}{"]" * 100_000}}}, "id": 4}}', 4, -32600),
        (f'{{"jsonrpc": "2.0", "id": 5, "method": "x", "params": {{"a": {"[" * 300}{"]" * 300}}}}}', 5, -32600),
        ("[" * 100_000, None, -32600),
    ],
)  # fmt: skip
def test_a_line_that_is_no_request_is_refused_with_its_id_where_it_has_one(line: str, number: object, code: int):
    assert refusal(line) == (number, code)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "  \n",
        '{"jsonrpc": "2.0", "method": "notifications/x", "params": [1]}',
        '{"id": 1, "result": 5, "jsonrpc": 2}',
    ],
)
def test_what_wants_no_answer_gets_none(line: str):
    assert judged(line) == (None, None)


@pytest.mark.parametrize(
    "line",
    ['{"jsonrpc": "2.0", "id": 1, "method": "ping"}', '{"jsonrpc": "2.0", "id": "é", "method": "ping", "params": {}}'],
)
def test_a_request_goes_on_as_it_is(line: str):
    assert judged(line) == (line, None)


def test_half_a_character_becomes_the_replacement_character():
    readable, answer = judged(
        '{"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"t": "a\\ud83d \\u00e9 \\ud83d\\ude00"}}'
    )

    assert answer is None
    assert json.loads(readable or "")["params"] == {"t": "a\ufffd é \U0001f600"}


def test_the_server_answers_every_line_that_has_an_id_and_lives_on(front: Front):
    deep = "[" * 100_000 + "]" * 100_000
    with server(front) as running:
        running.greet()
        write(running, b"garbage\n")
        write(running, b"\xff\xfe\x00\n")
        write(running, f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"x":{deep}}}}}\n'.encode())
        write(running, b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_delegation_patch",'
                       b'"arguments":{"delegation_id":"no\\ud83d"}}}\n')  # fmt: skip
        running.send("tools/call", 3, name="list_recent_delegations", arguments={"limit": -1})
        running.send("tools/call", 4, name="list_recent_delegations", arguments={})
        deep_answer, half, wrong, good = (running.answer(number) for number in (1, 2, 3, 4))
        garbage = running.answer(None)

    assert deep_answer["error"] == {"code": -32600, "message": "its content is nested too deeply"}
    assert "no delegation 'no\ufffd'" in half["result"]["content"][0]["text"]
    assert wrong["result"]["content"][0]["text"] == (
        "list_recent_delegations cannot be called like this: limit must be a whole number from 1 to 50, not -1"
    )
    assert good["result"]["structuredContent"] == {"delegations": []}
    assert garbage["error"]["code"] == -32700


def write(running: Server, line: bytes) -> None:
    assert running.child.stdin is not None
    running.child.stdin.write(line)
    running.child.stdin.flush()
