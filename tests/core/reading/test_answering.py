"""Questions answered by providers on loopback: the literals, failover, sessions that go on, lanes, typed answers."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from readers import ReadingUser, provider

from delegation.errors import ConflictError, NotFoundError, UsageError, WorkFailed
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import rendered
from delegation.reading.providers import AllFailed
from delegation.reading.wording import AnswerCut
from delegation.scripted.endpoint import ScriptedEndpoint, Turn

ROOT = Path(__file__).parents[3]
SESSION = r"rd-\d{8}t\d{9}-[0-9a-z]{4}"


@pytest.fixture
def user(tmp_path: Path) -> ReadingUser:
    return ReadingUser(tmp_path / "user-of-this-test", chance=lambda: 0.0)


def dead_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def test_the_answer_begins_with_the_fixed_line_and_ends_with_the_fixed_footer(user, write):
    root = write({"a.py": "one\ntwo\n", ".env": "x", "b.bin": b"\0\1"})
    with ScriptedEndpoint(["a.py:1-2 says it, a.py:3 does not"]) as endpoint:
        user.configure([provider("cheap", endpoint.base_url)])
        answer = user.analyze(root)
        request = endpoint.calls[0]
    lines = answer.text.splitlines()
    assert re.fullmatch(
        rf"\[delegate analyze\] provider=cheap model=model-of-cheap in=100 out=20 session={SESSION}", lines[0]
    )
    assert lines[1] == "a.py:1-2 says it, a.py:3 [wrong reference: the file has 2 lines] does not"
    assert lines[-2] == "not read: .env (excluded), b.bin (binary)"
    assert lines[-1] == "[delegate analyze] packed 1 file(s), 2 skipped"
    assert [(each.path, each.start) for each in answer.wrong_references] == [("a.py", 3)]
    assert request.headers["authorization"] == "Bearer key-of-cheap"
    assert request.body["max_tokens"] == 4096
    assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[1]["content"] == rendered(pack(root))
    assert request.messages[3]["content"] == "What is this?"


def test_counts_that_nobody_told_are_unknown_and_a_cost_that_somebody_told_is_in_the_header(user):
    turns = [Turn("yes", fault="no_usage"), Turn("yes", cost_usd=0.0123)]
    with ScriptedEndpoint(turns) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        silent, priced = user.query(), user.query()
    assert " in=unknown out=unknown session=" in silent.text.splitlines()[0]
    assert re.search(r" in=100 out=20 session=\S+ \(\$0\.012300\)$", priced.text.splitlines()[0])


def test_the_limit_of_an_answer_is_the_callers_then_the_files_and_at_least_two_hundred(user):
    with ScriptedEndpoint(["a"] * 3) as endpoint:
        user.configure([provider("p", endpoint.base_url)], default_max_output_tokens=900)
        user.query(), user.query(max_output_tokens=50), user.query(max_output_tokens=700)
        assert [call.body["max_tokens"] for call in endpoint.calls] == [900, 200, 700]


def test_a_dead_and_a_slow_provider_are_passed_over_with_one_request_each(user):
    slow_turn = Turn("late", delay_seconds=20)
    with ScriptedEndpoint([slow_turn] * 3) as slow, ScriptedEndpoint(["here"] * 2) as good:
        dead = dead_url()
        user.configure(
            [provider("dead", dead), provider("slow", slow.base_url, timeout_ms=200), provider("good", good.base_url)]
        )
        answer = user.query()
        assert (answer.provider, answer.failovers, answer.answer) == ("good", 2, "here")
        assert (len(slow.calls), len(good.calls)) == (1, 1)
    assert "does not accept connections" in answer.failures[0]
    assert answer.failures[1] == "'slow' had not answered after 0.2 s (its time limit)"
    assert [(line["provider"], line["failovers"], line["status"]) for line in user.metrics()] == [("good", 2, "ok")]


def test_all_failed_says_how_many_and_why_the_last_did(user):
    with ScriptedEndpoint([Turn(fault="500")]) as endpoint:
        user.configure([provider("dead", dead_url()), provider("broken", endpoint.base_url)])
        with pytest.raises(AllFailed, match=r"^all 2 provider\(s\) failed; last error: .*upstream exploded"):
            user.query()
        assert len(endpoint.calls) == 1
    (line,) = user.metrics()
    assert (line["status"], line["provider"], line["model"], line["failovers"]) == ("error", "-", "-", 2)
    assert line["message"].startswith("all 2 provider(s) failed")


def test_an_empty_answer_fails_over_and_says_the_remedy_where_nobody_has_another(user):
    with ScriptedEndpoint([Turn("", thinking="hm", stop="length")] * 2) as empty, ScriptedEndpoint(["x"]) as good:
        user.configure([provider("empty", empty.base_url), provider("good", good.base_url)])
        assert user.query(max_output_tokens=10).provider == "good"
        with pytest.raises(AllFailed, match="the answer is empty under max_output_tokens=200: raise") as told:
            user.query(max_output_tokens=10, model="empty")
    assert told.value.kind == "empty_answer"


def test_a_cut_answer_ends_at_once_for_the_limit_is_the_callers(user):
    with ScriptedEndpoint([Turn("half a sen", stop="length")]) as cut, ScriptedEndpoint(["x"]) as other:
        user.configure([provider("cut", cut.base_url), provider("other", other.base_url)])
        with pytest.raises(AnswerCut, match="cut off at max_output_tokens=4096: raise"):
            user.query()
        assert other.calls == []


def test_a_provider_that_was_disabled_is_not_asked_and_its_block_may_be_unfinished(user):
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([{"name": "draft"}, provider("p", endpoint.base_url)], disabled_providers=["draft"])
        assert user.query().provider == "p"


def test_headers_go_along(user):
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url, headers={"X-Team": "seven"})])
        user.query()
        assert endpoint.calls[0].headers["x-team"] == "seven"


def test_without_a_configuration_the_catalogue_serves_in_its_own_format(user, write):
    with ScriptedEndpoint(["from the catalogue"]) as endpoint:
        user.environ |= {"DELEGATE_LOCAL_URL": endpoint.base_url, "DELEGATE_LOCAL_MODEL": "local-m"}
        answer = user.analyze(write({"a": "x\n"}))
        assert endpoint.calls[0].format == "anthropic_messages"
    assert (answer.provider, answer.model, answer.answer) == ("local-m", "local-m", "from the catalogue")


def test_the_files_are_a_cached_prefix_where_the_format_has_marks(user, write):
    table = '[models.claude-x]\nbase_url = "{}"\nformat = "anthropic_messages"\n'
    with ScriptedEndpoint(["x", "y"]) as endpoint:
        config = user.settings.home.config_file
        config.parent.mkdir(parents=True)
        config.write_text(table.format(endpoint.base_url))
        session = user.analyze(write({"a": "x\n"}), model="claude-x").session_id
        user.resume(session)
        first, second = (call.messages for call in endpoint.calls)
    assert first[0]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert second[0]["content"][-1]["text"] == first[0]["content"][-1]["text"]


def test_nobody_to_ask_lists_every_place_that_was_looked_at(user):
    user.environ["XDG_CONFIG_HOME"] = "/somewhere"
    with pytest.raises(UsageError) as told:
        user.query()
    assert "no delegate-mcp config found; checked:\n  - /somewhere/delegate-mcp/config.json" in str(told.value)


def test_a_named_configuration_that_is_missing_is_not_replaced(user):
    user.environ |= {"DELEGATE_MCP_CONFIG": "/nowhere.json", "DELEGATE_LOCAL_MODEL": "local-m"}
    with pytest.raises(NotFoundError, match="no delegate-mcp config found"):
        user.query()


def test_an_empty_prompt_is_refused_and_half_a_character_is_made_whole(user):
    with ScriptedEndpoint(["so"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        with pytest.raises(UsageError, match="the prompt is empty"):
            user.query("  ")
        session = user.query("cut \ud83d").session_id
        assert endpoint.calls[0].messages[-1]["content"] == "cut \ufffd"
    assert (user.settings.home.reading / "sessions" / f"{session}.json").is_file()


def test_a_folder_with_nothing_to_read_costs_nothing(user, write):
    root = write({".env": "x", "b.bin": b"\0\1"})
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        with pytest.raises(UsageError, match=r"holds nothing to read \(1 excluded, 1 binary\)"):
            user.analyze(root)
        assert endpoint.calls == []


def test_hundreds_of_long_names_of_what_was_skipped_do_not_flood_the_caller(user, write):
    root = write({"a": "x\n", **{f"{number:03}{'n' * 150}.key": "k" for number in range(300)}})
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        answer = user.analyze(root)
    line = answer.text.splitlines()[-2]
    assert len(line) < 2200
    assert line.endswith(" more: `delegate pack DIR --list` names all")
    assert len(answer.skipped) == 300


def test_our_own_state_is_never_read_from_above_or_below(user):
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        user.query()
        for folder in (user.settings.home.reading, user.settings.home.root, user.home):
            with pytest.raises(UsageError, match="overlaps our state"):
                user.analyze(folder)
        assert len(endpoint.calls) == 1


def test_a_session_that_cannot_be_kept_costs_no_answer(user):
    with ScriptedEndpoint(["paid for"]) as endpoint:
        blocked = user.home / "file"
        user.configure([provider("p", endpoint.base_url)], session_dir=str(blocked))
        blocked.write_text("")
        answer = user.query()
    assert (answer.answer, answer.session_id) == ("paid for", None)
    assert "session=none" in answer.text.splitlines()[0]
    assert "note: the session was not kept" in answer.text


def test_a_resume_has_the_files_as_they_were_and_is_told_what_changed(user, write):
    root = write({"a.py": "old = 1\n"})
    with ScriptedEndpoint(["first", "second", "third"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        session = user.analyze(root, "Q1").session_id
        user.resume(session, "Q2")
        (root / "a.py").write_text("new = 2\n")
        answer = user.resume(session, "Q3")
        first, second, third = (call.messages for call in endpoint.calls)
    assert first[1] == second[1] == third[1]
    assert "1\told = 1" in third[1]["content"]
    assert [each["content"] for each in second[3:]] == ["Q1", "first", "Q2"]
    assert third[-1]["content"].startswith("(Since the files were packed, some are different now (changed: a.py)")
    assert third[-1]["content"].endswith("\n\nQ3")
    assert "note: Since the files were packed" in answer.text
    assert answer.text.startswith("[delegate resume] provider=p ")
    assert answer.session_id == session


def test_a_resume_goes_to_the_same_provider_and_model_and_nowhere_else(user):
    with ScriptedEndpoint(["x", Turn(fault="503")]) as first, ScriptedEndpoint(["y"] * 3) as other:
        user.configure([provider("first", first.base_url), provider("other", other.base_url)])
        session = user.query().session_id
        changed = provider("first", first.base_url) | {"default_model": "newer"}
        user.configure([provider("other", other.base_url, weight=99), changed])
        with pytest.raises(AllFailed, match=r"all 1 provider\(s\) failed"):
            user.resume(session)
        assert first.calls[1].model == "model-of-first"
        assert other.calls == []
        user.configure([provider("other", other.base_url)])
        with pytest.raises(UsageError, match=r"belongs to provider 'first', which .* no longer has or disables"):
            user.resume(session)


def test_an_expired_session_says_so_and_is_pruned(user):
    user.environ["DELEGATE_SESSION_KEEP_DAYS"] = "2"
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        session = user.query().session_id
        path = user.settings.home.reading / "sessions" / f"{session}.json"
        path.write_text(re.sub(r'"used_at": "\d{4}', '"used_at": "2020', path.read_text()))
        with pytest.raises(UsageError, match=r"expired: it was last used on 2020-\d\d-\d\d and is kept for 2 days"):
            user.resume(session)
        assert len(endpoint.calls) == 1


RESUME = """
import sys
from pathlib import Path
from readers import ReadingUser
user = ReadingUser(Path(sys.argv[1]), {"DELEGATE_MCP_CONFIG": sys.argv[1] + "/readers.json"})
try:
    print(user.resume(sys.argv[2], sys.argv[3]).answer)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_of_two_processes_that_resume_at_once_one_is_told_that_it_is_busy_and_nothing_is_lost(user):
    def child(prompt: str, session: str) -> "subprocess.Popen[str]":
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "doubles")])}
        argv = [sys.executable, "-c", RESUME, str(user.home), session, prompt]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)

    with ScriptedEndpoint(lambda request: Turn("done", delay_seconds=1.5 * ("and" in request.text))) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        session = user.query("start").session_id or ""
        children = [child("and one", session), child("and two", session)]
        said = sorted(each.communicate(timeout=30)[0].strip() for each in children)
        assert said[1] == "done"
        assert re.match(rf"ConflictError session '{session}' is busy \(pid \d+, since ", said[0])
        assert user.resume(session, "after").answer == "done"
        asked = [message["content"] for message in endpoint.calls[-1].messages if message["role"] == "user"]
    assert (asked[0], asked[2], len(asked)) == ("start", "after", 3)


def test_a_session_in_use_is_a_conflict_at_once(user):
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        session = user.query().session_id or ""
        from delegation.reading.admission import store_of

        with store_of(user.settings, None).resume(session), pytest.raises(ConflictError):
            user.resume(session)


MARKS: dict[str, Callable[[Path, ReadingUser], object]] = {
    "by its own file": lambda root, user: (root / ".delegate.toml").write_text('lane = "local"\n'),
    "by a folder above": lambda root, user: (root.parent / ".delegate.toml").write_text('lane = "local"\n'),
    "by a folder in it": lambda root, user: (root / "sub" / ".delegate.toml").write_text('lane = "local"\n'),
    "by a file in it that is ignored": lambda root, user: (
        (root / ".gitignore").write_text(".delegate.toml\n"),
        (root / "sub" / ".delegate.toml").write_text('lane = "local"\n'),
    ),
    "by the settings": lambda root, user: user.environ.update(DELEGATE_LOCAL_PATHS=str(root)),
}


@pytest.mark.parametrize("how", MARKS)
def test_a_folder_marked_local_is_read_by_local_providers_only_also_later(user, write, how):
    root = write({"sub/a.py": "secret\n"})
    MARKS[how](root, user)
    with ScriptedEndpoint(["x"] * 3) as cloud, ScriptedEndpoint(["y"] * 3) as local:
        user.configure([provider("cloud", cloud.base_url)])
        with pytest.raises(WorkFailed, match="is marked local, and none of 'cloud' is known to keep work") as told:
            user.analyze(root)
        assert told.value.kind == "privacy"
        user.configure([provider("cloud", cloud.base_url), provider("here", local.base_url, upstream_local=True)])
        answer = user.analyze(root)
        assert answer.provider == "here"
        user.configure([provider("here", local.base_url)])
        with pytest.raises(WorkFailed, match="is marked local"):
            user.resume(answer.session_id)
        assert cloud.calls == []


def test_files_that_were_marked_local_since_are_not_sent_again(user, write):
    root = write({"a.py": "a\n", "sub/b.py": "b\n"})
    with ScriptedEndpoint(["x"] * 2) as cloud:
        user.configure([provider("cloud", cloud.base_url)])
        session = user.analyze(root).session_id
        (root / "sub" / ".delegate.toml").write_text('lane = "local"\n')
        with pytest.raises(WorkFailed, match="is marked local"):
            user.resume(session)
        assert len(cloud.calls) == 1


def test_a_local_provider_at_an_address_elsewhere_is_refused(user):
    user.configure([provider("far", "http://192.0.2.1:9/v1", upstream_local=True)])
    with pytest.raises(UsageError, match="neither this machine nor in local_hosts"):
        user.query()


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_typed_answer_is_validated_and_asked_for_once_more(user):
    with ScriptedEndpoint(['{"n": "one"}', 'Sure:\n```json\n{"n": 1}\n```']) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        answer = user.query("How many?", json_schema=SCHEMA)
        first, second = (call.messages for call in endpoint.calls)
    assert (answer.data, answer.requests) == ({"n": 1}, 2)
    assert json.dumps(SCHEMA) in first[-1]["content"]
    assert second[-1]["content"].startswith("That does not fit the JSON schema: $.n: 'one' is not of type 'integer'")
    assert " in=200 out=40 " in answer.text


def test_a_typed_answer_that_never_fits_is_an_error(user):
    with ScriptedEndpoint(["no", "still no", "x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        with pytest.raises(AllFailed, match=r"answered twice with what does not fit the schema: it (is|holds) no"):
            user.query(json_schema=SCHEMA)
        assert len(endpoint.calls) == 2


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nonsense"}, "is no JSON schema"),
        ({"$ref": "http://example.org/x.json"}, "refers to 'http://example.org/x.json': only references inside it"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_before_anything_is_sent(user, schema, said):
    with ScriptedEndpoint(["x"]) as endpoint:
        user.configure([provider("p", endpoint.base_url)])
        with pytest.raises(UsageError, match=said):
            user.query(json_schema=schema)
        assert endpoint.calls == []
