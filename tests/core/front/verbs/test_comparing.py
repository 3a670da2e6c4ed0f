"""`delegate compare` and compare_models: one verb, asked for once, read at any time, and refused with a reason."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from front import ROOT, Front, Ran

from delegation.comparison.report import report_of
from delegation.comparison.trials import Trials
from delegation.errors import StackError, UsageError
from delegation.shared_state import SharedState
from mcp_entry.verbs.comparison.comparing import Comparing
from tests.core.front.mcp_client import called, client, content, text_of

Call = Callable[..., Ran]
CARD = "---\nrepo: .\nverify: 'true'\n---\nFix it.\n"
MODELS = "local-a,local-b"


@pytest.fixture
def card(front: Front) -> str:
    path = front.repo / "card.md"
    path.write_text(CARD, encoding="utf-8")
    return str(path)


def comparing(front: Front) -> Comparing:
    return Comparing(front.settings, front.said.append)


def play(front: Front, *, most: int = 1000, writes: bool = True) -> str:
    """What the flow does, without a stack: so many trials end, well with the first model, and the report is written."""
    store = comparing(front).store
    comparison = store.read(store.ids()[0])
    trials = Trials(comparison, front.settings)
    with SharedState(f"sqlite:///{front.home / 'shared.db'}") as state:
        for trial in comparison.trials[:most]:
            trials.enter(state, trial)
            front.end(trial.delegation_id, "verified" if trial.model == comparison.models[0] else "refuted")
    if writes:
        store.publish(comparison.id, "report.json", report_of(Trials(comparison, front.settings)).model_dump_json())
    return comparison.id


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "compare on which card? Name its file"),
        (("nosuch", "--models", MODELS), "no file 'nosuch', and no delegation of that id: name the file"),
        (("cmp-1",), "no comparison 'cmp-1'"),
        ((".", "--models", MODELS), "'.' is a folder: name the file of one card"),
        (("card.md",), "a comparison needs two models or more, and 0 was given"),
        (("card.md", "--models", "local-a"), "a comparison needs two models or more, and 1 was given"),
        (("card.md", "--models", "local-a,local-a"), "model 'local-a' is named twice"),
        (("card.md", "--models", "local-a,nosuch"), "nosuch"),
        (("card.md", "--models", MODELS, "--repeats", "0"), "repeats must be from 1 to 50, not 0"),
        (("card.md", "--models", MODELS, "--repeats", "x"), "--repeats must be a whole number, not 'x'"),
        (("card.md", "--models", MODELS, "--in-flight", "0"), "in_flight must be from 1 to 200, not 0"),
        (("two.jsonl", "--models", MODELS), "holds 2 cards: a comparison is of one"),
        (("later.md", "--models", MODELS), "later.md"),
        (("calc.py", "--models", MODELS), "is no card file"),
        (("bare.toml", "--models", MODELS), "repo is missing: name the folder"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_nothing_is_left(
    front: Front, call: Call, card: str, words: tuple[str, ...], text: str
):
    line = json.dumps({"repo": ".", "task": "x"})
    (front.repo / "two.jsonl").write_text(f"{line}\n{line}\n")
    (front.repo / "bare.toml").write_text('task = "x"\n')
    (front.repo / "later.md").write_text("---\nrepo: .\ndepends_on: [first]\n---\nx\n")
    ran = call("compare", *words)
    assert (ran.code, ran.stdout) == (2, ""), ran.stderr
    assert text in ran.stderr
    assert not (front.home / "comparisons").exists()
    assert not (front.home / "stack").exists()


def test_one_flow_run_is_made_and_the_same_key_is_the_same_comparison(stacked: Front, call: Call, card: str):
    words = ("compare", card, "--models", MODELS, "--repeats", "2", "--key", "k", "--no-wait", "--json")
    first, again = (call(*words) for _ in range(2))
    assert (first.code, again.code) == (0, 0), first.stderr
    told, told_again = json.loads(first.stdout), json.loads(again.stdout)
    assert (told["is_new"], told_again["is_new"]) == (True, False)
    assert told["id"] == told_again["id"]
    assert told["trials"] == told_again["trials"]
    assert stacked.prefect
    (run,) = stacked.prefect.runs.values()
    assert run["parameters"] == {"comparison_id": told["id"]}
    assert (run["tags"], run["work_queue_name"]) == (["comparison", told["id"]], "default")
    assert "local-now" in stacked.prefect.queues, "a card in a file waits for the night unless it says otherwise"
    other = call("compare", card, "--models", MODELS, "--key", "k", "--no-wait")
    assert (other.code, "the key 'k' already stands for" in other.stderr) == (2, True)


def test_a_flow_run_that_cannot_be_made_leaves_no_comparison(stacked: Front):
    assert stacked.prefect
    stacked.prefect.refuse = lambda method, path: 400 if "create_flow_run" in path else None
    with pytest.raises(StackError):
        comparing(stacked).submit(stacked.card(), ["local-a", "local-b"])
    assert comparing(stacked).store.ids() == []


def test_more_trials_than_the_queue_takes_are_refused(stacked: Front):
    stacked.environ["DELEGATE_MAX_QUEUE"] = "5"
    with pytest.raises(UsageError, match="6 trials are more than DELEGATE_MAX_QUEUE allows"):
        comparing(stacked).submit(stacked.card(), ["local-a", "local-b"], repeats=3)


def test_the_report_is_shown_with_the_stack_down_and_tells_of_each_model(stacked: Front, call: Call, card: str):
    call("compare", card, "--models", MODELS, "--repeats", "4", "--no-wait")
    name = play(stacked)
    (stacked.home / "stack" / "state.json").unlink()
    ran = call("compare", name[:-3])
    assert ran.code == 0, ran.stderr
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert "'local-a' passes more often than 'local-b': their intervals do not overlap." in lines
    assert any(line.startswith("1 local-a 4 of 4 (100%) 51% to 100% cost unknown") for line in lines)
    assert any(line.startswith("2 local-b 0 of 4 (0%) 0% to 49%") for line in lines)
    told = json.loads(call("compare", name, "--json").stdout)
    assert [each["rank"] for each in told["models"]] == ["1", "2"]
    assert len(told["trials"]) == 8


def test_what_nobody_works_on_any_more_is_told_as_it_stands(stacked: Front, call: Call, card: str):
    call("compare", card, "--models", MODELS, "--no-wait")
    name = play(stacked, most=1, writes=False)
    assert stacked.prefect
    (run,) = stacked.prefect.runs.values()
    stacked.prefect.end(run["id"], "CANCELLED")
    ran = call("compare", name, "--json")
    assert (ran.code, json.loads(ran.stdout)["ended"]) == (1, 1)
    assert "ended before all of its trials had" in ran.stderr
    assert call("compare", name, "--no-wait").code == 0


def test_cancelling_one_by_its_id_ends_its_flow_run(stacked: Front, call: Call, card: str):
    told = json.loads(call("compare", card, "--models", MODELS, "--no-wait", "--json").stdout)
    ran = call("cancel", told["id"], "--json")
    assert (ran.code, json.loads(ran.stdout)) == (0, {"id": told["id"], "state": "cancelled", "had_ended": False})
    assert stacked.prefect
    assert stacked.prefect.runs[told["flow_run_id"]]["state_type"] == "CANCELLED"
    assert json.loads(call("cancel", told["id"], "--json").stdout)["had_ended"]


@pytest.mark.parametrize("state", ["CRASHED", "SCHEDULED"])
def test_cancelling_one_whose_process_died_ends_it_and_its_trials_for_good(
    stacked: Front, call: Call, card: str, state: str
):
    """The keeper would take it up again, or has said so already: nobody but us ends its trials."""
    told = json.loads(call("compare", card, "--models", MODELS, "--repeats", "2", "--no-wait", "--json").stdout)
    handed, entered, ended, waiting = (each["delegation_id"] for each in told["trials"])
    trials = Trials(comparing(stacked).store.read(told["id"]), stacked.settings)
    with SharedState(f"sqlite:///{stacked.home / 'shared.db'}") as shared:
        for trial in trials.comparison.trials[:3]:
            trials.enter(shared, trial)
    stacked.end(ended, "verified")
    assert stacked.prefect
    stacked.prefect.runs["run-1"] = {"id": "run-1", "name": "trial", "tags": [handed]}
    stacked.prefect.end("run-1", "RUNNING")
    stacked.records.remember_flow_run(handed, "run-1")
    stacked.prefect.end(told["flow_run_id"], state)
    ran = call("cancel", told["id"], "--json")

    assert (ran.code, json.loads(ran.stdout)) == (0, {"id": told["id"], "state": "cancelled", "had_ended": False})
    assert stacked.prefect.runs[told["flow_run_id"]]["state_type"] == "CANCELLED"
    assert stacked.prefect.runs["run-1"]["state_type"] == "CANCELLING", "its process ends it"
    receipt = stacked.records.receipt(entered)
    assert receipt is not None
    assert receipt.outcome == "cancelled", "nobody hands it over any more"
    report = json.loads(call("compare", told["id"], "--no-wait", "--json").stdout)
    assert [line["state"] for line in report["trials"]] == ["running", "cancelled", "verified", "waiting"]
    assert not trials.has_begun(next(each for each in trials.comparison.trials if each.delegation_id == waiting))
    page = (stacked.home / "comparisons" / told["id"] / "report.html").read_text(encoding="utf-8")
    assert "2 of 4 trials have ended by then" in page


def test_a_comparison_is_named_by_an_ending_of_its_id_too(stacked: Front, call: Call, card: str):
    told = json.loads(call("compare", card, "--models", MODELS, "--no-wait", "--json").stdout)
    shown = call("compare", told["id"][-4:], "--no-wait", "--json")
    assert (shown.code, json.loads(shown.stdout)["id"]) == (0, told["id"]), shown.stderr
    assert json.loads(call("cancel", told["id"][-4:], "--json").stdout)["id"] == told["id"]
    assert call("cancel", "nosuch").code == 2


def test_without_a_stack_an_open_comparison_cannot_be_waited_for(stacked: Front, call: Call, card: str):
    call("compare", card, "--models", MODELS, "--no-wait")
    name = play(stacked, most=1, writes=False)
    (stacked.home / "stack" / "state.json").unlink()
    assert call("compare", name).code == 4


def test_a_delegation_can_be_compared_anew_from_the_commit_it_began_at(stacked: Front, call: Call):
    name = stacked.keep(task="Fix the median", verify="true")
    base = stacked.records.request(name).base_commit
    (stacked.repo / "more.py").write_text("x = 1\n")
    for words in (["add", "."], ["commit", "-qm", "more"]):
        subprocess.run(["git", *words], cwd=stacked.repo, check=True)
    (stacked.repo / name[-4:]).mkdir()  # a folder cannot be compared, so the delegation is meant
    for text in (name, name[-4:], name[:-2], "1"):
        assert call("show", text).code == 0
        ran = call("compare", text, "--models", MODELS, "--no-wait", "--json")
        assert (ran.code, json.loads(ran.stdout or "{}").get("base_commit")) == (0, base), ran.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestTool:
    async def test_it_waits_for_the_end_and_answers_with_findings_models_and_trials(self, stacked: Front, mode: str):
        told: list[str | None] = []
        answer: dict[str, Any] = {}

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        arguments = {"card": {"task": "Fix it", "verify": "true"}, "models": ["local-a", "local-b"], "repeats": 4}
        stacked.environ["CLAUDE_PROJECT_DIR"] = str(stacked.repo)
        async with client(stacked, mode) as connected, anyio.create_task_group() as group:

            async def flow() -> None:
                with anyio.fail_after(30):
                    while "0 of 8 trials ended, 0 at work, 8 to begin" not in told:
                        await anyio.sleep(0.02)
                await anyio.to_thread.run_sync(lambda: play(stacked))

            group.start_soon(flow)
            answer = content(await connected.call_tool("compare_models", arguments, progress_callback=hear))
        assert (answer["complete"], answer["ended_trials"], answer["all_trials"]) == (True, 8, 8)
        assert answer["findings"][0] == "'local-a' passes more often than 'local-b': their intervals do not overlap."
        first, second = answer["models"]
        assert (first["model"], first["rank"], first["verified"], first["interval_95"]) == (
            "local-a", "1", "4 of 4 (100%)", "51% to 100%",
        )  # fmt: skip
        assert (second["cost_per_verified"], first["cost_per_verified"]) == (None, "cost unknown")
        assert {(each["model"], each["state"], each["counts"]) for each in answer["trials"]} == {
            ("local-a", "verified", True), ("local-b", "refuted", True),
        }  # fmt: skip
        assert (answer["watch"], answer["report_path"].endswith("/report.html")) == (None, True)
        assert {stacked.records.request(each["delegation_id"]).tool for each in answer["trials"]} == {"compare"}

    async def test_one_that_may_not_wait_answers_with_how_to_watch_and_is_asked_again_by_its_id(self, stacked: Front):
        given = {"task": "x", "repo": str(stacked.repo)}
        arguments = {"card": given, "models": ["local-a", "local-b"], "wait_seconds": 0}
        answer = content(await called(stacked, "compare_models", arguments))
        assert answer["complete"] is False
        assert "no verify command" in answer["warnings"][0]
        assert answer["watch"].endswith(f"compare {answer['comparison_id']}")
        await anyio.to_thread.run_sync(lambda: play(stacked))
        again = content(await called(stacked, "compare_models", {"comparison_id": answer["comparison_id"]}))
        assert (again["complete"], again["ended_trials"]) == (True, 2)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({}, "give a card and models, or the comparison_id of an earlier call"),
            ({"card": {"task": "x"}, "models": ["local-a"]}, "needs two models or more"),
            ({"card": {"task": "x", "modle": "y"}, "models": ["local-a", "local-b"]}, "modle"),
            ({"comparison_id": "cmp-x", "models": ["local-a"]}, "comparison_id stands alone"),
            ({"comparison_id": "cmp-x"}, "no comparison 'cmp-x'"),
            ({"card": {"task": "x", "include_dirty": True}, "models": ["local-a", "local-b"]}, "include_dirty"),
        ],
    )
    async def test_what_cannot_be_compared_is_a_tool_error(self, stacked: Front, arguments: dict[str, Any], text: str):
        stacked.environ["CLAUDE_PROJECT_DIR"] = str(stacked.repo)
        answer = await called(stacked, "compare_models", arguments)
        assert answer.is_error
        assert text in text_of(answer)

    async def test_the_answer_stays_small_however_many_trials_there_are(self, stacked: Front):
        stacked.environ["CLAUDE_PROJECT_DIR"] = str(stacked.repo)
        arguments = {
            "card": {"task": "x", "verify": "true"}, "models": ["local-a", "local-b"], "repeats": 50, "wait_seconds": 0,
        }  # fmt: skip
        answer = await called(stacked, "compare_models", arguments)
        assert content(answer)["all_trials"] == 100
        assert len(json.dumps(content(answer))) < 30_000


def test_the_commands_of_the_page_are_those_that_there_are(stacked: Front, call: Call, card: str):
    """Each line of the page as it stands there, with this user's card, models that are known here, and no waiting."""
    page = (ROOT / "docs" / "how-to" / "compare-models.md").read_text(encoding="utf-8")
    lines = [line[2:].split("#")[0].split() for line in page.splitlines() if line.startswith("$ ")]
    assert [words[:2] for words in lines] == [["delegate", "compare"]] * 3 + [["delegate", "models"]]
    asked = [words[1:] for words in lines[:2]]
    for words in asked:
        assert words[:2] == ["compare", Path(card).name]
        ran = call(*words, *(["--no-wait"] if "--no-wait" not in words else []))
        assert ran.code == 0, ran.stderr
    store = comparing(stacked).store
    assert len(store.ids()) == 2
    plan = store.read(store.ids()[0])
    assert (plan.models, plan.repeats) == (("openai-good", "openai-bad"), 4)
    shown = call(*[word.replace("cmp-ID", play(stacked)) for word in lines[2][1:]])
    assert (shown.code, "'openai-good' passes more often than 'openai-bad'" in shown.stdout) == (0, True)
    record = call(*lines[3][1:])
    assert "openai-good: change in repo  4 of 4 verified (100%)" in record.stdout
