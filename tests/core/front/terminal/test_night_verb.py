"""`delegate night`: what cannot be a night is refused before the stack hears of it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from front import Front, Ran

from delegation.night.terms import Terms, night_id_of
from mcp_entry.stack import run_end

CARD = "---\nrepo: ..\n---\nFix it.\n"


@pytest.fixture
def night(front: Front) -> Front:
    (front.repo / "cards").mkdir()
    (front.repo / "cards" / "a.md").write_text(CARD, encoding="utf-8")
    return front


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the cards of which folder or file? Name it"),
        (("nosuch",), "there is no folder or file"),
        (("calc.py",), "is no card file"),
        (("cards", "--until", "25:00"), "--until must be a time such as 01:30"),
        (("cards", "--at", "noon"), "--at must be a time such as 01:30"),
        (("cards", "--at", "01:00", "--once", "--time-zone", "Mars"), "there is no time zone 'Mars'"),
        (("cards", "--budget", "0"), "--budget must be a number above 0, not 0"),
        (("cards", "--in-flight", "0"), "--in-flight must be a whole number from 1 to 1000, not 0"),
        (("cards", "--error-rate", "2"), "--error-rate must be a number above 0 to 1, not 2"),
        (("cards", "--name", "A b"), "name 'A b' must be of a-z, 0-9 and '-'"),
        (("cards", "--at", "01:00", "--wait"), "--wait is for a night that begins now"),
        (("cards", "--once"), "--once needs --at"),
    ],
)
def test_what_cannot_be_a_night_is_refused_by_its_option_and_nothing_is_left(
    night: Front, words: tuple[str, ...], text: str
):
    ran = night.delegate("night", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert text in ran.stderr
    assert not (night.home / "nights").exists()
    assert not (night.home / "stack").exists()


def test_a_single_night_that_is_planned_is_replaced_by_the_next_and_called_off(stacked: Front):
    """A wrong hour must not be a second night, and one that was planned can be taken away."""
    (stacked.repo / "cards").mkdir()
    (stacked.repo / "cards" / "a.md").write_text(CARD, encoding="utf-8")

    def states() -> list[str]:
        return sorted(run["state"]["type"] for run in stacked.prefect.runs.values())

    for hour in ("05:00", "06:00"):
        assert stacked.delegate("night", "cards", "--at", hour, "--once").code == 0
    assert states() == ["CANCELLED", "SCHEDULED"]
    assert stacked.delegate("night", "cards").code == 0, "one that begins now is none of the planned"
    off = stacked.delegate("night", f"../{stacked.repo.name}/cards", "--off")
    assert off.stdout == "1 planned single night called off\n", off.stderr
    assert states() == ["CANCELLED", "CANCELLED", "SCHEDULED"]
    assert stacked.delegate("night", "cards", "--off").stdout == "nothing was planned for these cards\n"


def test_taking_away_needs_the_stack(night: Front):
    ran = night.delegate("night", "cards", "--off", "--json")
    assert ran.code == 4
    assert "no stack runs" in ran.stderr
    assert ran.stdout == "" or "error" in json.loads(ran.stdout)


@pytest.mark.parametrize("name", ["nosuch", "night-nosuch", "../../etc/passwd"])
def test_a_night_that_nobody_knows_cannot_be_shown(stacked: Front, name: str):
    ran = stacked.delegate("night", "--show", name)
    assert (ran.code, ran.stdout) == (2, "")
    assert "night" in ran.stderr


def test_a_night_is_shown_where_it_stands_and_by_its_report_once_it_has_ended(stacked: Front):
    (stacked.repo / "cards").mkdir()
    (stacked.repo / "cards" / "a.md").write_text(CARD, encoding="utf-8")
    asked = json.loads(stacked.delegate("night", "cards", "--json", "--notify", "mail-me").stdout)
    name, (run,) = asked["night_id"], stacked.prefect.runs.values()
    assert run["parameters"]["notify"] == "mail-me"
    folder = stacked.home / "nights" / name
    folder.mkdir(parents=True)
    child = {"card": "a", "content": "x", "number": 1, "delegation_id": stacked.keep(), "part": "p"}
    (folder / "children.jsonl").write_text(json.dumps(child) + "\n", encoding="utf-8")
    stacked.prefect.end(run["id"], "RUNNING")

    ran = stacked.delegate("night", "--show", name)
    assert ran.code == 0
    assert ran.stdout.splitlines()[0] == f"{name}: running, 1 card begun so far"
    assert ran.stdout.splitlines()[1].split()[::2] == [child["delegation_id"], "a"]
    assert json.loads(stacked.delegate("night", "--show", name, "--json").stdout)["cards"][0]["card"] == "a"

    stacked.prefect.end(run["id"], "FAILED", message="the folder is gone")
    ran = stacked.delegate("night", "--show", name, "--wait")
    assert (ran.code, ran.stdout) == (1, "")
    assert "the folder is gone" in ran.stderr


def test_a_night_that_is_not_taken_up_again_did_not_end_well_for_whoever_waits(
    stacked: Front, call: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_end, "RESUME_SECONDS", -1.0)
    (stacked.repo / "cards").mkdir()
    (stacked.repo / "cards" / "a.md").write_text(CARD, encoding="utf-8")
    name = json.loads(call("night", "cards", "--json").stdout)["night_id"]
    (run,) = stacked.prefect.runs.values()
    stacked.prefect.end(run["id"], "CRASHED", message="its process died")
    ran = call("night", "--show", name, "--wait")
    assert (ran.code, ran.stdout) == (1, "")
    assert "its process died" in ran.stderr


def test_a_report_that_cannot_be_read_is_named(stacked: Front, call: Callable[..., Ran]):
    folder = stacked.home / "nights" / "night-x"
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("{", encoding="utf-8")
    ran = call("night", "--show", "night-x")
    assert (ran.code, ran.stdout) == (2, "")
    assert f"{str(folder / 'report.json')!r} is damaged" in ran.stderr


def test_a_night_is_shown_by_the_name_of_its_heading_and_an_unknown_one_names_the_newest(stacked: Front):
    for name in ("night-20261130-da382d0c", "night-spring"):
        (stacked.home / "nights" / name).mkdir(parents=True)
    for name in ("20261130-da382d0c", "night-20261130-da382d0c", "spring"):
        ran = stacked.delegate("night", "--show", name)
        assert (ran.code, ran.stderr) == (0, "") or "without a report" in ran.stderr, ran.stderr
    said = stacked.delegate("night", "--show", "x").stderr
    assert "there is no night 'x'" in said
    assert "night-20261130-da382d0c" in said
    assert "night-spring" in said


def test_a_name_that_begins_as_ids_do_is_the_same_name(front: Front):
    terms = Terms(cards="/cards", name="night-spring")
    assert night_id_of(terms, datetime.now(UTC), front.settings) == "night-spring"


def test_all_that_will_not_run_is_told_when_a_night_begins(stacked: Front):
    (stacked.repo / "cards").mkdir()
    for name, text in {"a": "modle: x", "b": "base: nosuch", "c": "queue: night"}.items():
        (stacked.repo / "cards" / f"{name}.md").write_text(f"---\nrepo: ..\n{text}\n---\nFix it.\n", encoding="utf-8")
    ran = stacked.delegate("night", "cards")
    assert ran.code == 0
    assert "cannot be read; the others go on: " in ran.stderr
    assert "a.md:3: modle is an unknown key" in ran.stderr
    assert "cannot be done; the others go on: " in ran.stderr
    assert "b.md:3: " in ran.stderr
    assert "c.md" not in ran.stderr
