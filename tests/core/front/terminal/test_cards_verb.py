"""`delegate cards`: a folder is checked and planned, and nothing is run, started or written."""

import json
from pathlib import Path

import jsonschema
from front import Front

from delegation.cards import schema


def cards(front: Front, **files: str) -> Path:
    folder = front.repo / "cards"
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def files_of(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file())


GOOD = "---\nrepo: ..\nverify: 'true'\nbudget: 0.5\nattempts: 2\ndepends_on: [base]\npriority: 3\n---\nFix it.\n"
BASE = "- {id: base, repo: .., task: Prepare, model: local-other}\n- {id: last, repo: .., task: Tidy up}\n"


def test_the_plan_shows_order_models_pools_and_budgets_and_leaves_nothing_behind(front: Front):
    cards(front, good__md=GOOD, two__yaml=BASE, q__jsonl='{"prompt": "Why?"}\n')
    ran = front.delegate("cards", "cards", "--json")

    assert (ran.code, ran.stderr) == (0, "")
    plan = json.loads(ran.stdout)
    assert [(card["id"], card["model"], card["attempts"]) for card in plan["cards"]] == [
        ("base", "local-other", 1), ("good", "local-scripted", 2), ("q-1", "local-scripted", 1),
        ("last", "local-scripted", 1),
    ]  # fmt: skip
    assert plan["pools"] == [{"bucket": "local-", "queue": "local-night", "delegations": 5, "at_a_time": 2}]
    assert (plan["budget_usd"], plan["without_budget"]) == (1.0, 3)
    assert plan["cards"][1]["place"].endswith("cards/good.md:2")
    assert len(plan["cards"][1]["base_commit"]) == 40
    assert files_of(front.home) == []


def test_a_broken_card_is_named_with_its_line_and_the_exit_code_is_2(front: Front):
    cards(front, good__md=GOOD, two__yaml=BASE, bad__md="---\nrepo: ..\nmodle: x\n---\nFix\n", notes__txt="")
    (front.repo / "cards" / "unknown.json").write_text('{"repo": "..", "task": "x", "model": "nosuch"}')
    ran = front.delegate("cards", "cards")

    assert ran.code == 2
    assert "bad.md:3: modle is an unknown key: did you mean 'model'?" in ran.stderr
    assert "unknown.json:1: unknown model 'nosuch'" in ran.stderr
    assert "passed over: notes.txt: not *.md" in ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()[1:4]] == ["base", "good", "last"]
    assert "3 cards, 4 delegations, 2 problems" in ran.stdout
    assert "local-night: 4 delegations, 2 at a time" in ran.stdout


def test_a_folder_that_is_not_there_is_not_found(front: Front):
    ran = front.delegate("cards", "nosuch")
    assert (ran.code, ran.stdout) == (2, "")
    assert "there is no folder or file" in ran.stderr
    assert front.delegate("cards").code == 2


def test_the_schema_takes_the_cards_that_are_taken_and_refuses_those_that_are_not(front: Front):
    ran = front.delegate("cards", "--schema")
    made = json.loads(ran.stdout)
    assert (ran.code, made) == (0, schema())

    validator = jsonschema.Draft202012Validator(made)
    assert validator.is_valid({"id": "a", "repo": ".", "task": "x", "attempts": 3, "review_by": "2026-12-01"})
    assert validator.is_valid([{"name": "a", "dir": ".", "prompt": "x", "max_iterations": 5}])
    for wrong in ({"modle": "x"}, {"attempts": 11}, {"lane": "moon"}, {"task": 5}, [5], {"budget": "much"}):
        assert not validator.is_valid(wrong), wrong


def test_everything_that_cannot_be_had_is_told_with_its_line_and_key(front: Front):
    cards(front, bad__md="---\nrepo: ..\nagent: fixr\n\nbase: nosuch\nmodel: gone\n---\nFix it.\n")
    told = json.loads(front.delegate("cards", "cards", "--json").stdout)["problems"]
    assert [(problem["line"], problem["key"]) for problem in told] == [(3, "agent"), (5, "base"), (6, "model")]
    assert all(word in problem["message"] for word, problem in zip(("fixr", "nosuch", "gone"), told, strict=True))


def test_what_waits_for_a_broken_card_is_no_work(front: Front):
    wants = "---\nrepo: ..\ndepends_on: [%s]\n---\nFix it.\n"
    cards(
        front,
        a__md=wants % "b",
        b__md=wants % "c",
        c__md="---\nrepo: ..\nmodle: x\n---\nFix\n",
        d__md="---\nrepo: ..\n---\nFix\n",
    )
    ran = front.delegate("cards", "cards")
    assert "1 card, 1 delegation, 1 problem, 2 passed over" in ran.stdout
    assert "local-night: 1 delegation," in ran.stdout
    rows = {line.split()[0]: line for line in ran.stdout.splitlines() if line[:2] in ("a ", "b ", "d ")}
    assert "passed over: c cannot run" in rows["b"]
    assert "passed over: b cannot run" in rows["a"]
    assert "passed over" not in rows["d"]
