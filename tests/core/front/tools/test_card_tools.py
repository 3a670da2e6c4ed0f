"""`submit_cards` and `poll_cards` over a client in memory: all cards checked, broken ones named, the others begun."""

import json
from pathlib import Path
from typing import Any

import pytest
from front import Front
from mcp import Client
from mcp_types import Implementation

from delegation.night.report import CardLine, NightReport
from mcp_entry.mcp_server.server import build
from tests.core.front.mcp_client import called, content, text_of

pytestmark = pytest.mark.anyio
GOOD = "---\nrepo: ..\nverify: 'true'\nattempts: 2\n---\nFix it.\n"


@pytest.fixture
def cards(front: Front) -> Path:
    folder = front.repo / "cards"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD, encoding="utf-8")
    (folder / "after.yaml").write_text("repo: ..\ntask: Then this\ndepends_on: [good]\n", encoding="utf-8")
    (folder / "bad.md").write_text("---\nrepo: ..\nmodle: x\n---\nFix\n", encoding="utf-8")
    (folder / "notes.txt").write_text("")
    return folder


async def test_a_folder_is_checked_its_broken_cards_named_and_the_others_begun(stacked: Front, cards: Path, mode: str):
    given = {"folder": str(cards), "budget_usd": 3, "error_rate": 1}
    answer = content(await called(stacked, "submit_cards", given, mode))

    assert [(card["card"], card["attempts"], card["depends_on"]) for card in answer["cards"]] == [
        ("good", 2, []), ("after", 1, ["good"]),
    ]  # fmt: skip
    (broken,) = answer["broken"]
    assert (broken["card"], broken["line"], broken["key"]) == ("bad", 3, "modle")
    assert broken["message"] == "modle is an unknown key: did you mean 'model'?"
    assert answer["passed_over"] == ["notes.txt: not *.md, *.yaml, *.json or *.jsonl"]
    assert answer["summary"].startswith("2 cards, 1 problem: they begin ")
    assert answer["whole"] == 2
    assert "night --show " + answer["night_id"] in answer["watch"]
    (run,) = stacked.prefect.runs.values()
    assert [run["parameters"][name] for name in ("cards", "budget_usd", "error_rate")] == [str(cards), 3, 1]
    assert run["tags"] == ["night", answer["night_id"]]
    assert answer["report"].endswith(f"{answer['night_id']}/report.html")


async def test_a_list_of_cards_is_kept_as_a_file_of_the_night_and_the_same_list_is_the_same_night(stacked: Front):
    given = [
        {"id": "one", "task": "Fix it", "verify": "true"},
        {"task": "Tidy", "repo": ".", "depends_on": ["one"]},
        {"task": "Why?", "expects": "answer"},
        {"task": "x", "lane": "moon"},
        "no card",
    ]
    answer = content(await called(stacked, "submit_cards", {"cards": given}))
    again = content(await called(stacked, "submit_cards", {"cards": given}))

    assert [card["card"] for card in answer["cards"]] == ["one", "card-2", "card-3"]
    assert [(each["card"], each["key"]) for each in answer["broken"]] == [("card-4", "lane"), ("cards-5", None)]
    assert again["night_id"] == answer["night_id"]
    sources = {run["parameters"]["cards"] for run in stacked.prefect.runs.values()}
    (source,) = map(Path, sources)
    kept = json.loads(source.read_text(encoding="utf-8"))
    project = stacked.service().workdir(None)
    assert [Path(card["repo"]) for card in kept[:2]] == [Path(project), Path(project)]
    assert "repo" not in kept[2]
    assert source.is_relative_to(stacked.home)
    other = content(await called(stacked, "submit_cards", {"cards": given[:1]}))
    assert other["night_id"] != answer["night_id"]


async def test_check_only_shows_the_plan_and_begins_nothing(front: Front, cards: Path):
    answer = content(await called(front, "submit_cards", {"folder": str(cards), "check_only": True}))
    assert answer["summary"] == "2 cards, 1 problem: checked, nothing was begun"
    assert (answer["night_id"], answer["watch"]) == (None, None)
    assert not (front.home / "stack").exists()


async def test_what_comes_every_night_is_ended_by_the_same_tool(stacked: Front, cards: Path):
    assert stacked.prefect
    every = content(await called(stacked, "submit_cards", {"folder": str(cards), "at": "01:30", "every_night": True}))
    assert (every["every_night"], len(stacked.prefect.schedules)) == (True, 1)
    told = [content(await called(stacked, "submit_cards", {"folder": str(cards), "off": True})) for _ in range(2)]
    assert [each["summary"] for each in told] == [
        "these cards are no longer done every night", "nothing was planned for these cards",
    ]  # fmt: skip
    assert (told[0]["night_id"], stacked.prefect.schedules, stacked.prefect.runs) == (None, {}, {})


async def test_a_tool_use_that_is_sent_twice_is_one_night(stacked: Front, cards: Path):
    meta: Any = {"claudecode/toolUseId": "toolu_1"}
    async with Client(
        build(stacked.service), mode="auto", client_info=Implementation(name="claude-code", version="1")
    ) as connected:
        for _ in range(2):
            content(await connected.call_tool("submit_cards", {"folder": str(cards)}, meta=meta))
    assert len(stacked.prefect.runs) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give either folder or cards"),
        ({"folder": ".", "cards": [{"task": "x"}]}, "give either folder or cards"),
        ({"cards": []}, "cards is empty"),
        ({"folder": "nosuch"}, "there is no folder or file"),
        ({"cards": [{"tusk": "x"}, 5]}, "no card can run: "),
        ({"cards": [{"task": "x"}], "until": "25:00"}, "until must be a time such as 01:30"),
        ({"cards": [{"task": "x"}], "at": "noon"}, "at must be a time such as 01:30"),
        ({"cards": [{"task": "x"}], "every_night": True}, "every_night needs at"),
        ({"cards": [{"task": "x"}], "in_flight": 0}, "in_flight must be a whole number from 1 to 1000, not 0"),
        ({"cards": [{"task": "x"}], "error_rate": 2}, "error_rate must be a number above 0 to 1, not 2"),
        ({"folder": ".", "off": True}, "no stack runs"),
        ({"cards": [{"task": "x"}], "budget_usd": -1}, "budget_usd must be a number above 0, not -1"),
        ({"cards": [{"task": "x"}], "time_zone": "Mars"}, "there is no time zone 'Mars'"),
        ({"cards": [{"task": "x"}], "name": "A b"}, "name 'A b' must be of"),
    ],
)
async def test_what_makes_no_night_is_a_tool_error_in_its_own_words(front: Front, arguments: dict[str, Any], said: str):
    answer = await called(front, "submit_cards", arguments)
    assert answer.is_error
    assert said in text_of(answer)
    assert not (front.home / "stack").exists()


async def test_a_night_that_goes_on_shows_where_its_cards_are_and_one_that_ended_its_report(
    stacked: Front, cards: Path
):
    asked = content(await called(stacked, "submit_cards", {"folder": str(cards)}))
    name, (run,) = asked["night_id"], stacked.prefect.runs.values()
    waiting = content(await called(stacked, "poll_cards", {"night_id": name, "wait_seconds": 0.1}))
    assert (waiting["ended"], waiting["summary"], waiting["cards"]) == (False, "it has not begun", [])

    folder = stacked.home / "nights" / name
    folder.mkdir(parents=True)
    running = stacked.keep()
    child = {"card": "good", "content": "x", "number": 1, "delegation_id": running, "part": "p"}
    (folder / "children.jsonl").write_text(json.dumps(child) + "\n", encoding="utf-8")
    stacked.prefect.end(run["id"], "RUNNING")
    going = content(await called(stacked, "poll_cards", {"night_id": name}))
    assert (going["ended"], going["summary"]) == (False, "running, 1 card begun so far")
    assert [(card["card"], card["delegation_id"]) for card in going["cards"]] == [("good", running)]

    (folder / "report.json").write_text(report(name).model_dump_json(), encoding="utf-8")
    stacked.prefect.end(run["id"], "COMPLETED")
    ended = content(await called(stacked, "poll_cards", {"night_id": name, "wait_seconds": 30}))
    assert (ended["ended"], ended["summary"]) == (True, "1 of 151 cards accepted")
    assert ended["counts"] == {"verified": 1, "failed": 150}
    assert (ended["cards"][0]["card"], ended["cards"][0]["state"], ended["left_out"]) == ("good", "verified", 51)
    assert len(json.dumps(ended)) < 40_000


async def test_a_night_that_was_not_worked_says_why(stacked: Front, cards: Path):
    asked = content(await called(stacked, "submit_cards", {"folder": str(cards)}))
    (run,) = stacked.prefect.runs.values()
    stacked.prefect.end(run["id"], "COMPLETED", "Skipped", "the shift 'x' still works on these cards")
    ended = content(await called(stacked, "poll_cards", {"night_id": asked["night_id"]}))
    assert (ended["ended"], ended["cards"]) == (True, [])
    assert ended["summary"] == "the shift 'x' still works on these cards"


async def test_a_run_that_had_nothing_to_do_does_not_hide_the_one_that_works(stacked: Front, cards: Path):
    for _ in range(2):
        asked = content(await called(stacked, "submit_cards", {"folder": str(cards)}))
    first, second = stacked.prefect.runs.values()
    stacked.prefect.end(first["id"], "COMPLETED", "Skipped", "the shift 'x' still works on these cards")
    stacked.prefect.end(second["id"], "RUNNING")
    assert content(await called(stacked, "poll_cards", {"night_id": asked["night_id"]}))["ended"] is False


@pytest.mark.parametrize("name", ["night-nosuch", "../../etc", "x"])
async def test_a_night_that_nobody_knows_is_not_found(stacked: Front, name: str):
    answer = await called(stacked, "poll_cards", {"night_id": name})
    assert answer.is_error
    assert "night" in text_of(answer)


def report(name: str) -> NightReport:
    lines = [
        CardLine(
            card="good", place="/c/good.md:2", title="Fix it", group="verified", reason="Accepted.", accepted=True
        ),
        *(
            CardLine(card=f"bad-{n}", place="/c/x.md:2", title="x" * 400, group="failed", reason="It failed. " * 400)
            for n in range(150)
        ),
    ]
    return NightReport.model_validate(
        {
            "night_id": name, "source": "/c", "begun": "2026-05-01T01:00:00Z", "ended": "2026-05-01T02:00:00Z",
            "stopped": None, "costs": {}, "spent_usd": 0, "lines": lines, "passed_over_files": [],
        }
    )  # fmt: skip
