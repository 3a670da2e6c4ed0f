"""What a person reads: exit codes that stay, words that are not doubled, tables that fit a narrow terminal."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from front import Front, Ran

from delegation.agents.transcript import entries_of
from delegation.request import DelegationRequest

Call = Callable[..., Ran]


def configured(front: Front, text: str) -> None:
    file = front.home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "x", "--max-turns", "-1"], "--max-turns must be a whole number from 1 to 150, not -1"),
        (["run", "x", "--budget", "x"], "--budget must be a number, not 'x'. See `delegate run --help`."),
        (["run", "x", "--budget", "0"], "--budget must be a number above 0, not 0"),
        (["run", "x", "--repo", ""], "repo is empty: give the path of a git repository or folder"),
        (["run", "x", "--repo", ".git"], "/.git' lies inside a git directory: give the repository's own folder"),
        (["run", "--card", "c.json"], "task must be a text, not 5; repo must be a text, not 6"),
        (["agents", "--repo", "/nonexistent"], "'/nonexistent' is not a folder: name the repository whose agents"),
        (["run", "x", "--model", "scripted"], "unknown model 'scripted': did you mean 'local-scripted'? To add"),
        (["run", "x", "--model", "q.1"], """known: local-scripted. To add it, write [models."q.1"] into"""),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_with_what_is_allowed(front: Front, call: Call, words: list[str], said: str):
    (front.repo / "c.json").write_text('{"task": 5, "repo": 6}')
    done = call(*words)

    assert done.code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "value"), [("DELEGATE_MAX_QUEUE", "abc"), ("DELEGATE_MAX_QUEUE", "1.5")])
def test_a_variable_that_cannot_be_is_told_with_what_was_found(front: Front, call: Call, name: str, value: str):
    front.environ[name] = value
    assert call("list").stderr == f"delegate: {name} must be a whole number from 1, not {value!r}\n"


def test_a_wrong_type_in_the_file_is_told_with_its_line(front: Front, call: Call):
    configured(front, '# ours\n[settings]\nmax_queue = "many"\n\n[models.m]\nbase_url = "http://127.0.0.1:1"\n')
    file = front.home / "config" / "delegate.toml"
    assert call("models").stderr == (
        f"delegate: {file}, line 3: [settings] max_queue must be a whole number from 1, not 'many'\n"
    )


@pytest.mark.parametrize("words", [["show", "nosuch"], ["run", ""], ["list", "--limit", "-1"], ["ui"]])
def test_a_traceback_is_shown_beside_the_message_and_the_exit_code_stays(front: Front, call: Call, words: list[str]):
    plain, traced = call(*words), call(*words, "--traceback")

    assert traced.code == plain.code
    assert plain.code in (2, 4)
    assert "Traceback (most recent call last)" in traced.stderr
    assert traced.stderr.endswith(plain.stderr)


def test_a_literal_key_is_one_warning_that_never_shows_it(front: Front, call: Call):
    configured(front, '[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nformat = "openai"\nkey = "sk-sekrit"\n')
    done = call("models", "--no-ask")

    assert done.stderr.count("holds its key as text") == 1
    assert "sekrit" not in done.stdout + done.stderr


def test_models_that_nobody_may_ask_are_listed_without_any_request(
    front: Front, call: Call, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("no server may be asked")

    monkeypatch.setattr("httpx.Client.send", refused)
    configured(front, 'default_model = "only-a-server-knows"\n')
    for name in ("DELEGATE_DISCOVER", "DELEGATE_LOCAL_MODEL"):
        del front.environ[name]
    done = call("models", "--no-ask")
    assert (done.code, "only-a-server-knows" in done.stdout) == (0, True), done.stderr

    del front.environ["DELEGATE_LOCAL_URL"], front.environ["DELEGATE_LOCAL_KEY"]
    configured(front, "")
    nothing = call("models", "--no-ask")
    assert (nothing.code, nothing.stdout) == (0, "no models\n"), "a table without rows says less"
    assert "no model" in nothing.stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_terminal_cuts_no_name_and_breaks_no_word(front: Front, call: Call, columns: int):
    front.environ["COLUMNS"] = str(columns)
    configured(front, '[models.a-very-long-alias-of-a-model]\nbase_url = "http://127.0.0.1:9/v1/of/a/long/address"\n')
    folder = front.repo / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer-of-everything.md").write_text(
        "---\ndescription: Reads carefully and says what it thinks of it\n---\nx\n"
    )
    ids = [front.keep(number=number, task="Mend the median of an even count of values") for number in (1, 2)]
    front.end(ids[0], "verified")

    listed, models, agents = call("list").stdout, call("models", "--no-ask").stdout, call("agents").stdout

    for name in ids:
        assert name in listed
    assert "a-very-long-alias-of-a-model" in models
    assert "http://127.0.0.1:9/v1/of/a/long/address" in models
    assert "reviewer-of-everything" in agents
    assert str(folder / "reviewer-of-everything.md") in agents
    for word in ("Mend", "median", "count", "values"):
        assert word in listed.split()
    for word in ("carefully", "thinks"):
        assert word in agents.split()
    long = (*ids, "http://", str(folder))
    assert [line for line in (listed + models + agents).splitlines() if len(line.rstrip()) > columns
            and not any(name in line for name in long)] == []  # fmt: skip


def test_a_list_that_is_piped_is_not_wrapped(front: Front):
    task = "Mend the median of an even count, and change nothing else at all, please"
    name = front.keep(number=1, task=task)
    del front.environ["COLUMNS"]

    (line,) = [line for line in front.delegate("list").stdout.splitlines() if name in line]

    assert line.endswith("please")


def test_a_cancelled_delegation_is_said_to_be_so_once(front: Front, call: Call):
    name = front.keep()
    front.end(name, "cancelled")

    shown = call("show", name).stdout

    assert shown.splitlines()[0].strip() == "cancelled  somebody ended it; what it did until then is kept"


def test_a_warning_is_told_once_where_it_is_waited_for(stacked: Front, call: Call, monkeypatch: pytest.MonkeyPatch):
    from mcp_entry.verbs.service import Service

    submit = Service.submit

    def submitted(self: Service, card: object, **options: object) -> object:
        started = submit(self, card, **options)  # pyright: ignore[reportArgumentType]
        stacked.end(started.id, "unverified", warnings=[*started.warnings, "seen later"])
        return started

    monkeypatch.setattr(Service, "submit", submitted)
    (stacked.repo / ".env").write_text("DELEGATE_NETWORK=0\n")
    done = call("run", "x")

    assert (done.stdout + done.stderr).count("DELEGATE_NETWORK is ignored there") == 1
    assert "warning    seen later" in done.stdout


def test_judging_again_is_not_called_the_delegation_of_a_key(stacked: Front, call: Call):
    started = stacked.service().submit(stacked.card(verify="true"))
    stacked.end(started.id, "refuted", patch=b"diff --git a/x b/x\n")
    stacked.prefect.runs[started.flow_run_id]["state_type"] = "COMPLETED"

    done = call("rerun", started.id, "--from", "verify", "--no-wait")

    assert "is judged again: its verify step runs, and no model is asked" in done.stderr
    assert "key" not in done.stderr.partition(started.id)[2].splitlines()[0]


def test_a_turn_is_headed_by_one_word_and_half_a_character_can_be_read(front: Front):
    name = front.keep()
    path = front.records.folder(name) / "trajectory.jsonl"
    events = [
        {"seq": 0, "time": "t", "type": "turn", "turn": 1, "tool_calls": 1},
        {"seq": 1, "time": "t", "type": "note", "turn": 1, "reason": "r", "text": "a\ud83d"},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))

    entries, _ = entries_of(path)

    assert [entry.heading for entry in entries] == ["turn 1  t", "note turn 1  t"]
    assert entries[1].text == "(r) a\ufffd"


def test_a_damaged_record_is_told_in_our_words(front: Front, call: Call):
    name = front.keep()
    path: Path = front.records.folder(name) / "request.json"
    whole = DelegationRequest.model_validate_json(path.read_text()).model_dump(mode="json")
    path.write_text(json.dumps({**whole, "limits": {**whole["limits"], "max_turns": "x"}}))

    done = call("rerun", name)

    assert done.code == 2
    assert "pydantic" not in done.stderr
    assert os.linesep not in done.stderr.rstrip()
