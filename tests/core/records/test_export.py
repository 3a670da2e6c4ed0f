"""The history for other programs: whole, harmless in a spreadsheet, and without secrets."""

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from past import UNKNOWN, PastRecords, reported

from delegation.errors import UsageError
from delegation.masking import MASK, NOTHING_SECRET, Mask
from delegation.receipt import Cost, Usage
from delegation.records.export import Format, export
from delegation.records.index import History
from delegation.records.secrets_in import secrets_of
from delegation.secrets import keep
from delegation.settings import load_settings

SECRET = "sk-of-this-test-0123456789"
ODD = 'A "quoted", semi;colon\nsecond line\r\nthird 你好 🎉 \u202e'


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home")


def exported(past: PastRecords, kind: Format, mask: Mask = NOTHING_SECRET) -> Path:
    out = past.root.parent / f"out.{kind}"
    number = export(History(past.home).reads(), kind, out, mask)
    assert number == len(past.store.ids())
    return out


def as_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


def as_rows(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM delegations ORDER BY id")]


def test_every_format_holds_any_text_as_it_was(past: PastRecords):
    name = past.add("answered", task=ODD, answer=ODD)
    line = json.loads(exported(past, "jsonl").read_text(encoding="utf-8"))
    assert (line["id"], line["task"], line["answer"]) == (name, ODD, ODD)
    (row,) = as_csv(exported(past, "csv"))
    assert (row["id"], row["task"], row["answer"]) == (name, ODD, ODD)
    (kept,) = as_rows(exported(past, "sqlite"))
    assert (kept["delegation_id"], kept["task"], kept["result_preview"]) == (name, ODD, ODD)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "＝1+1", "-- list"])
def test_no_cell_is_a_formula(past: PastRecords, text: str):
    past.add("answered", task=f"{text} x", answer=text, agent=text)
    (row,) = as_csv(exported(past, "csv"))
    for name in ("answer", "agent"):
        assert row[name] == f"'{text}"
    assert all(not value.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r")) for value in row.values())


def test_numbers_stay_numbers_and_what_is_unknown_is_empty(past: PastRecords):
    past.add("verified", cost=reported(0.25), usage=Usage(input_tokens=0, requests=1))
    (row,) = as_csv(exported(past, "csv"))
    assert (row["input_tokens"], row["output_tokens"], row["number"], row["judged"]) == ("0", "", "1", "true")
    assert (row["cost_reported"], row["cost_estimated"], row["cost_flat_plan"]) == ("0.25", "", "")
    assert row["failure_kind"] == ""


def test_the_table_is_whole_with_its_head_also_without_a_delegation(past: PastRecords):
    past.home.make(past.home.delegations)
    text = exported(past, "csv").read_text(encoding="utf-8")
    assert text.startswith("id,number,state,outcome,")
    assert len(text.splitlines()) == 1
    assert as_rows(exported(past, "sqlite")) == []


def test_the_database_has_the_columns_that_its_users_know(past: PastRecords):
    past.add("verified", cost=reported(0.25), backend="openrouter", claim="c" * 2_000)
    past.add("failed", failure_kind="quota", cost=UNKNOWN, usage=None)
    past.add(None)
    first, second, third = as_rows(exported(past, "sqlite"))
    assert [each["id"] for each in (first, second, third)] == [1, 2, 3], "the running number"
    assert {name: first[name] for name in ("tool", "backend", "model", "task", "iterations", "success")} == {
        "tool": "run", "backend": "openrouter", "model": "local-m", "task": "Fix the median", "iterations": 2,
        "success": 1,
    }  # fmt: skip
    assert (first["prompt_tokens"], first["completion_tokens"], first["total_tokens"]) == (100, 10, 110)
    assert (first["cost_usd"], first["cost_kind"], first["result_preview"]) == (0.25, "reported", "c" * 500)
    assert first["started_at"] < first["ended_at"]
    assert (second["success"], second["cost_usd"], second["total_tokens"]) == (0, None, None), "unknown is not free"
    assert (third["success"], third["ended_at"]) == (None, None)


def test_money_of_two_kinds_is_not_added(past: PastRecords):
    past.add("verified", costs=(reported(0.25), Cost(amount_usd=0.5, kind="estimated")))
    (row,) = as_csv(exported(past, "csv"))
    assert (row["cost_reported"], row["cost_estimated"]) == ("0.25", "0.5")
    (kept,) = as_rows(exported(past, "sqlite"))
    assert (kept["cost_usd"], kept["cost_kind"]) == (None, "mixed")


def test_a_record_without_a_number_of_its_own_gets_one_and_takes_nobodys(past: PastRecords):
    names = [past.add("verified") for _ in range(3)]
    for name, number in ((names[2], None), (names[1], 1)):
        entry = past.store.entry(name).model_copy(update={"number": number})
        (past.store.folder(name) / "entry.json").write_text(entry.model_dump_json(), encoding="utf-8")
        receipt = past.store.receipt(name)
        assert receipt is not None
        past.store.write_receipt(receipt.model_copy(update={"number": number}))
    rows = as_rows(exported(past, "sqlite"))
    assert sorted(row["delegation_id"] for row in rows) == sorted(names)
    assert len({row["id"] for row in rows}) == 3


def test_a_damaged_record_is_in_every_file_with_its_problem(past: PastRecords):
    name = past.add("verified")
    (past.store.folder(name) / "receipt.json").write_text("{", encoding="utf-8")
    past.add("verified")
    for found in (
        {row["id"]: row["problem"] for row in as_csv(exported(past, "csv"))},
        {row["delegation_id"]: row["problem"] for row in as_rows(exported(past, "sqlite"))},
    ):
        assert "receipt.json" in str(found.pop(name))
        assert list(found.values()) in ([""], [None])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "sqlite"])
def test_the_keys_that_were_given_stand_in_no_file(past: PastRecords, kind: Format):
    reference = keep(past.home, SECRET)
    past.add("answered", task=f"Use {SECRET} for it", answer=f"I used {SECRET}", key_ref=reference)
    settings = load_settings({"DELEGATE_HOME": str(past.root), "DELEGATE_LOCAL_KEY": "another-key-9876"}, past.root)
    past.add("answered", answer="with another-key-9876")
    mask = secrets_of(settings, past.store.ids())
    content = exported(past, kind, mask).read_bytes()
    assert SECRET.encode() not in content
    assert b"another-key-9876" not in content
    assert content.count(MASK.encode()) >= 3


@pytest.mark.parametrize("kind", ["jsonl", "csv", "sqlite"])
def test_a_file_that_breaks_off_leaves_the_earlier_one_and_nothing_beside_it(past: PastRecords, kind: Format):
    past.add("verified")
    out = exported(past, kind)
    before = out.read_bytes()
    assert out.stat().st_mode & 0o777 == 0o600

    def breaks() -> Any:
        yield from History(past.home).reads()
        raise RuntimeError("broke off")

    with pytest.raises(RuntimeError):
        export(breaks(), kind, out, NOTHING_SECRET)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".out")] == []


def test_a_place_that_cannot_be_written_is_named(past: PastRecords, tmp_path: Path):
    with pytest.raises(UsageError, match=r"--out '.*nosuch/x.csv' cannot be written: No such file"):
        export([], "csv", tmp_path / "nosuch" / "x.csv", NOTHING_SECRET)
