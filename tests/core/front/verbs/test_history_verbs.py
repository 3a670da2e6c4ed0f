"""list, show, stats, export and prune as a person and a client call them: from the disk, with no stack."""

import csv
import io
import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from front import Front, Ran
from mcp import Client
from past import PastRecords, reported

from mcp_entry.mcp_server.server import build

Call = Callable[..., Ran]


@pytest.fixture
def past(front: Front) -> PastRecords:
    return PastRecords(front.home)


def ids(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.stderr
    return [line["id"] for line in json.loads(ran.stdout)["delegations"]]


def test_list_takes_every_filter_and_its_limit_counts_what_fits(past: PastRecords, call: Call, front: Front):
    ours = [past.add("refuted", repo=str(front.repo), model="glm") for _ in range(3)]
    past.add("verified", repo=str(front.repo), model="glm", ago=timedelta(minutes=1))
    past.add("refuted", ago=timedelta(days=9))
    words = ("--repo", ".", "--model", "g*", "--outcome", "refuted", "--since", "2h", "--lane", "metered")
    more = ("--agent", "coder", "--text", "MEDIAN", "--tag", "model:glm")
    assert sorted(ids(call("list", "--json", *words, *more))) == sorted(ours)
    assert len(ids(call("list", "--json", *words, "--limit", "2"))) == 2
    assert len(call("list", *words).stdout.splitlines()) == 4
    none = call("list", "--model", "nosuch")
    assert (none.code, none.stdout, none.stderr) == (0, "", "delegate: no delegation fits\n")
    assert not front.settings.home.stack.exists()


def test_a_damaged_record_is_listed_among_the_others(past: PastRecords, call: Call):
    whole, damaged = past.add("verified"), past.add("verified")
    (past.store.folder(damaged) / "receipt.json").write_text("{", encoding="utf-8")
    for words in ((), ("--outcome", "verified")):
        lines = {line["id"]: line for line in json.loads(call("list", "--json", *words).stdout)["delegations"]}
        assert set(lines) == {whole, damaged}
        assert (lines[damaged]["state"], "receipt.json" in lines[damaged]["problem"]) == ("unreadable", True)


def test_show_has_the_timeline_and_what_was_made_from_it(past: PastRecords, call: Call):
    first = past.add("refuted")
    second = past.add("verified", parent_id=first, ago=timedelta(minutes=30))
    third = past.add(None, parent_id=first, ago=timedelta(minutes=1))
    shown = call("show", first).stdout
    assert "  timeline   from " in shown
    assert "submitted" in shown
    assert f"  rerun as   {second} (#2)  verified" in shown
    assert f"  rerun as   {third} (#3)  agent" in shown
    assert f"  after      {first}" in call("show", second).stdout
    told = json.loads(call("show", first, "--json").stdout)
    assert told["children"] == [
        {"id": second, "number": 2, "state": "verified"},
        {"id": third, "number": 3, "state": "agent"},
    ]
    assert [each["what"] for each in told["timeline"]] == ["submitted", "ended"]
    assert told["outcome"] == "refuted"
    assert json.loads(call("show", third, "--json").stdout)["timeline"][0]["what"] == "submitted"
    assert ids(call("list", "--json", "--parent", "1")) == [third, second]


def test_a_long_timeline_leaves_turns_out_for_a_person_and_none_for_a_program(past: PastRecords, call: Call):
    name = past.add(None)
    events = [{"seq": 1, "time": "2026-11-30T11:00:00+00:00", "type": "header", "alias": "glm"}]
    for turn in range(1, 101):
        at = f"2026-11-30T11:{turn // 60:02d}:{turn % 60:02d}+00:00"
        events.append({"seq": turn + 1, "time": at, "type": "turn", "turn": turn, "tool_calls": turn, "last_tool": "x"})
    log = past.store.folder(name) / "trajectory.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    shown = call("show", name).stdout
    assert "... 70 turns more" in shown
    assert "turn 15 " in shown
    assert "turn 86 " in shown
    assert sum(each["kind"] == "turn" for each in json.loads(call("show", name, "--json").stdout)["timeline"]) == 100


def test_stats_are_by_day_and_model_or_by_what_is_asked_for(past: PastRecords, call: Call):
    for model, outcome, amount in (("glm", "verified", 0.25), ("glm", "refuted", 0.5), ("qwen", "verified", None)):
        past.add(outcome, model=model, cost=reported(amount))
    shown = call("stats").stdout.splitlines()
    assert shown[0].split() == [
        "day",
        "model",
        "n",
        "verified",
        "tokens",
        "in",
        "/",
        "out",
        "cost",
        "seconds",
        "outcomes",
    ]
    assert any("glm" in line and "1 of 2 (50%)" in line and "$0.750000" in line for line in shown)
    assert any("qwen" in line and "1 reported" in line and "$" not in line for line in shown)
    assert shown[3].startswith("all")
    found = json.loads(call("stats", "--by", "model", "--by", "outcome", "--json", "--model", "glm").stdout)
    assert [(each["group"], each["delegations"]) for each in found["groups"]] == [
        ({"model": "glm", "outcome": "refuted"}, 1),
        ({"model": "glm", "outcome": "verified"}, 1),
    ]
    assert found["overall"]["verified_rate"] == 0.5
    assert call("stats", "--model", "nosuch").stdout == "no delegation fits\n"


def test_stats_say_that_something_cannot_be_read(past: PastRecords, call: Call):
    (past.store.folder(past.add("verified")) / "receipt.json").write_text("{", encoding="utf-8")
    ran = call("stats")
    assert "1 record cannot be read and is left out; `delegate list` names them" in ran.stderr


def test_export_writes_to_stdout_or_to_a_file_of_ones_own(past: PastRecords, call: Call, front: Front):
    refuted, verified = past.add("refuted", answer="=1"), past.add("verified", ago=timedelta(minutes=1))
    lines = [json.loads(line) for line in call("export").stdout.splitlines()]
    assert [line["id"] for line in lines] == [verified, refuted]
    table = call("export", "--format", "csv", "--outcome", "refuted").stdout
    (row,) = csv.DictReader(io.StringIO(table))
    assert (row["id"], row["answer"]) == (refuted, "'=1")
    made = json.loads(call("export", "--format", "sqlite", "--json", "--since", "5min").stdout)
    path = front.repo / "delegations.db"
    assert made == {"path": str(path), "format": "sqlite", "delegations": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT delegation_id FROM delegations").fetchall() == [(verified,)]
    said = call("export", "--format", "csv", "--out", "history.csv")
    assert (said.stdout, said.stderr) == ("", f"delegate: 2 delegations written to {front.repo / 'history.csv'}\n")


def test_an_export_never_takes_the_place_of_a_device_or_a_pipe(past: PastRecords, call: Call, front: Front):
    past.add("verified")
    os.mkfifo(front.repo / "pipe")
    (front.repo / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        ran = call("export", "--out", name)
        assert (ran.code, "is a device or a pipe: name a plain file" in ran.stderr) == (2, True)
    assert stat.S_ISFIFO((front.repo / "link").stat().st_mode)


def test_an_export_masks_the_keys_that_a_task_quotes(past: PastRecords, call: Call):
    past.add("answered", task="my key is sk-of-this-test, do it")
    assert "sk-of-this-test" not in call("export").stdout


def test_prune_says_what_goes_and_what_stays_and_why(past: PastRecords, call: Call):
    nothing = call("prune")
    assert (nothing.code, nothing.stdout) == (0, "")
    assert "no limit is set, so everything stays" in nothing.stderr
    old = past.add("refuted", ago=timedelta(days=40))
    waits = past.add("verified", ago=timedelta(days=40), patch=b"+x\n")
    looked = call("prune", "--older-than", "30", "--dry-run")
    assert looked.stdout.startswith(f"would go  {old}  ended 40.0 days ago")
    assert f"kept {waits}: its change is verified and was not applied" in looked.stderr
    assert len(past.store.ids()) == 2
    done = json.loads(call("prune", "--older-than", "30", "--json").stdout)
    assert [each["id"] for each in done["removed"]] == [old]
    assert done["freed_bytes"] > 0
    assert past.store.ids() == [waits]
    assert f"the record of '{old}' was cleared away on" in call("show", old).stderr


def test_what_prune_leaves_is_one_line_for_each_reason_and_that_nothing_goes_is_said(past: PastRecords, call: Call):
    waits = [past.add("verified", ago=timedelta(days=40 - number), patch=b"+x\n") for number in range(5)]
    looked = call("prune", "--older-than", "30", "--dry-run")
    assert looked.stdout == ""
    assert looked.stderr.splitlines() == [
        f"delegate: kept {', '.join(waits[:3])} and 2 more: its change is verified and was not applied",
        "delegate: nothing would go",
    ]
    assert "nothing went" in call("prune", "--older-than", "30").stderr
    young = call("prune", "--older-than", "90", "--dry-run")
    assert (young.stdout, young.stderr) == ("", "delegate: nothing would go\n")


def test_applying_in_any_way_is_noted_in_the_record(front: Front, call: Call):
    from tests.core.front.verbs.test_bringing_home import adding

    names = [front.keep(number=number) for number in (1, 2, 3)]
    for name, file in zip(names, ("one", "two", "three"), strict=True):
        front.end(name, "verified", patch=adding("x", file))
    assert call("apply", "1").code == 0
    assert call("apply", "2", "--branch", "mended").code == 0
    told = {each["what"]: each["detail"] for each in json.loads(call("show", "1", "--json").stdout)["timeline"]}
    assert told["applied"] == f"in {front.repo}"
    told = {each["what"]: each["detail"] for each in json.loads(call("show", "2", "--json").stdout)["timeline"]}
    assert told["applied"] == "as branch mended"
    kept = call("prune", "--keep", "0", "--dry-run").stderr
    assert names[2] in kept
    assert names[0] not in kept
    assert names[1] not in kept


@pytest.mark.anyio
async def test_the_tool_takes_the_same_filters(past: PastRecords, front: Front):
    wanted = past.add("refuted", model="glm", answer="It is 42")
    past.add("verified", model="glm")
    child = past.add("failed", failure_kind="auth", parent_id=wanted, ago=timedelta(minutes=1))
    async with Client(build(front.service)) as client:

        async def listed(**words: object) -> list[str]:
            answer = await client.call_tool("list_recent_delegations", words)
            assert not answer.is_error, answer
            assert answer.structured_content is not None
            return [line["id"] for line in answer.structured_content["delegations"]]

        assert await listed(model="g*", outcome=["refuted"], since="1d", text="42", lane="metered") == [wanted]
        assert await listed(parent=wanted) == [child]
        assert len(await listed(limit=2)) == 2
        refused = await client.call_tool("list_recent_delegations", {"since": "soon"})
    assert refused.is_error


@pytest.mark.slow
def test_ten_thousand_records_are_listed_and_counted_in_seconds(past: PastRecords, call: Call, tmp_path: Path):
    """Measured on two cores: 5 s of CPU at first, then 1 s for all and half a second for a list."""
    import shutil
    import time

    from delegation.ids import new_id

    model = past.store.folder(past.add("verified", task="Fix the bug\n" + "words " * 300, model="glm"))
    for minutes in range(9_999):
        name = new_id("dg", past.now - timedelta(minutes=10 * minutes + 60))
        folder = model.with_name(name)
        folder.mkdir()
        for file in ("entry.json", "request.json", "receipt.json"):
            text = (model / file).read_text(encoding="utf-8").replace(model.name, name)
            (folder / file).write_text(text, encoding="utf-8")
        shutil.copy(model / "status.json", folder)
    time.sleep(2.1)  # what is younger is not remembered
    assert json.loads(call("stats", "--by", "model", "--json").stdout)["overall"]["delegations"] == 10_000
    for words, seconds in (
        (("list", "--limit", "20"), 1.0),
        (("list", "--model", "nosuch"), 4.0),
        (("list", "--text", "nowhere at all"), 5.0),
        (("stats",), 5.0),
    ):
        began = time.process_time()
        assert call(*words).code == 0
        assert time.process_time() - began < seconds, words
