"""`delegate models --record`: what each model has come to so far, with no stack and no question to anybody."""

import json
from collections.abc import Callable
from typing import Any

from front import Front, Ran

from delegation.receipt import Cost, Usage

Call = Callable[..., Ran]


def kept(front: Front, outcome: str, amount: float | None, **fields: Any) -> None:
    cost = Cost(amount_usd=amount, kind="unknown" if amount is None else "reported")
    used = Usage(input_tokens=10, output_tokens=1, requests=1)
    delegation_id = front.keep(number=None, verify="true", **fields)
    front.end(delegation_id, outcome, cost=cost, costs=(cost,), usage=used, turns=1)


def test_the_record_of_models_is_a_table_with_counts_and_price(front: Front, call: Call):
    for outcome, amount in (("verified", 0.25), ("refuted", 0.5), ("verified", 0.25)):
        kept(front, outcome, amount)
    ran = call("models", "--record")
    assert ran.code == 0
    line = next(line for line in ran.stdout.splitlines() if line.startswith("local-scripted"))
    for words in ("change in repo", "3 ended: 2 verified, 1 refuted", "2 of 3 verified (67%)", "$0.500000 each"):
        assert words in line
    assert not front.settings.home.stack.exists()


def test_a_price_that_is_not_known_is_said_and_is_no_number(front: Front, call: Call):
    kept(front, "verified", 0.25)
    kept(front, "verified", None)
    table = call("models", "--record").stdout
    assert "cost unknown (1 reported, 1 unknown)" in table
    assert "$" not in table


def test_what_was_asked_for_has_a_line_of_its_own_under_the_model(front: Front, call: Call):
    kept(front, "verified", 0.25)
    kept(front, "answered", 0.25, expects="answer")
    lines = call("models", "--record").stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("local-scripted"))
    assert "2 ended: 1 verified, 1 answered" in lines[first]
    assert [line.split()[0] for line in lines[first + 1 : first + 3]] == ["answer", "change"]
    assert "none judged" in lines[first + 1]


def test_as_json_it_is_one_object_that_scripts_can_read(front: Front, call: Call):
    kept(front, "verified", None)
    ran = call("models", "--record", "--json")
    found = json.loads(ran.stdout)
    (model,) = found["models"]
    assert (model["model"], model["judged"], model["verified"], model["pass_rate"]) == ("local-scripted", 1, 1, 1.0)
    assert (model["usd_per_verified"], model["costs"]) == (
        None,
        [{"kind": "unknown", "amount_usd": None, "delegations": 1}],
    )
    assert [(kind["expects"], kind["repo"]) for kind in model["kinds"]] == [("change", str(front.repo))]


def test_damaged_records_are_left_out_and_said(front: Front, call: Call):
    kept(front, "verified", 0.25)
    (front.records.folder(front.records.ids()[0]) / "receipt.json").write_text("{", encoding="utf-8")
    ran = call("models", "--record")
    assert (ran.code, ran.stdout.strip()) == (0, "No delegation has ended yet.")
    assert "1 records cannot be read" in ran.stderr
