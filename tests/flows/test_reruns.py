"""Doing it again, on the real stack: by every option of `rerun`, by Retry in the UI, and as a custom run."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from delegation.home import Home
from delegation.scripted.endpoint import Call, Request, ScriptedEndpoint, Turn
from delegation.stack_state import StackState, running_stack
from tests.flows.conftest import Terminal, local_model
from tests.flows.test_ui import waited_for

pytestmark = pytest.mark.stack

VERIFY = "python -m pytest -q"
FINAL = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def edit(old: str, new: str) -> Turn:
    return Turn(calls=(Call("edit_file", {"path": "adding.py", "old_text": old, "new_text": new}),))


WRONG = (edit("a - b", "a * b"), Turn(text="Fixed."))
RIGHT = (edit("a - b", "a + b"), Turn(text="Fixed."))


class Api:
    """Prefect's server, asked as its UI asks it."""

    def __init__(self, state: StackState) -> None:
        user, _, password = (state.auth_string or "").partition(":")
        self.http = httpx.Client(base_url=f"{state.api_url}/", auth=(user, password), trust_env=False, timeout=60)

    def run(self, flow_run_id: str) -> dict[str, Any]:
        return self.http.get(f"flow_runs/{flow_run_id}").raise_for_status().json()

    def deployment(self, name: str = "delegation/delegation") -> dict[str, Any]:
        return self.http.get(f"deployments/name/{name}").raise_for_status().json()

    def custom_run(
        self, parameters: dict[str, Any], tags: tuple[str, ...] = (), deployment: str = "delegation/delegation"
    ) -> dict[str, Any]:
        """What the form posts."""
        body = {"parameters": parameters, "tags": list(tags), "state": {"type": "SCHEDULED"}, "name": "by hand"}
        made = self.http.post(f"deployments/{self.deployment(deployment)['id']}/create_flow_run", json=body)
        return made.raise_for_status().json()

    def retry(self, flow_run_id: str) -> dict[str, Any]:
        """Retry, and the run once it has ended again."""
        before = self.ended(flow_run_id)["run_count"]
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        self.http.post(f"flow_runs/{flow_run_id}/set_state", json={"state": state, "force": True}).raise_for_status()
        return waited_for(
            lambda: found if (found := self._ended(flow_run_id)) and found["run_count"] > before else None
        )

    def ended(self, flow_run_id: str) -> dict[str, Any]:
        return waited_for(lambda: self._ended(flow_run_id), 120)

    def _ended(self, flow_run_id: str) -> dict[str, Any] | None:
        found = self.run(flow_run_id)
        return found if found["state"]["type"] in FINAL else None


@pytest.fixture
def api(stack: Terminal) -> Iterator[Api]:
    found = Api(running_stack(Home(root=stack.home, config_file=stack.home / "config.toml")))
    yield found
    found.http.close()


def record(stack: Terminal, name: str) -> Path:
    return stack.home / "delegations" / name


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def commit(repository: Path, file: str, text: str) -> str:
    (repository / file).write_text(text, encoding="utf-8")
    for words in (["add", "."], ["commit", "-q", "-m", file]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def asked(request: Request) -> str:
    return json.dumps(request.body)


def test_a_rerun_with_every_change_leaves_the_first_run_as_it_was_and_each_knows_the_other(
    stack: Terminal, small_repository: Path, tmp_path: Path
):
    card = {
        "task": "Fix adding",
        "repo": str(small_repository),
        "verify": VERIFY,
        "wants": ["test_adding.py::test_add"],
    }
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")

    def answer(request: Request) -> Turn:
        turns = RIGHT if "Mind the sign" in asked(request) else WRONG
        return turns[min(request.turn, 1)]

    with ScriptedEndpoint(answer) as endpoint:
        env = local_model(endpoint.base_url)
        first = stack("run", "--card", str(tmp_path / "card.json"), "--json", env=env).json
        before = contents(record(stack, first["id"]))
        head = commit(small_repository, "later.py", "x = 1\n")
        same = stack("rerun", first["id"], "--json", env=env).json
        second = stack(
            "rerun", first["id"], "--model", "openai-other", "--prompt-add", "Mind the sign.", "--base", "HEAD",
            "--verify", f"test -e later.py && {VERIFY}", "--json", env=env,
        ).json  # fmt: skip
        models = {call.model for call in endpoint.calls if "Mind the sign" in json.dumps(call.body)}

    assert (first["outcome"], same["outcome"], second["outcome"]) == ("refuted", "refuted", "verified")
    assert (same["base_commit"], second["base_commit"]) == (first["base_commit"], head)
    assert (second["model_used"], models) == ("openai-other", {"openai-other"})
    assert second["verification"]["command"] == f"test -e later.py && {VERIFY}"
    assert contents(record(stack, first["id"])) == before
    assert {same["parent_id"], second["parent_id"]} == {first["id"]}
    shown = stack("show", first["id"], "--json").json
    assert [each["id"] for each in shown["children"]] == [same["id"], second["id"]]
    request = json.loads((record(stack, second["id"]) / "request.json").read_text(encoding="utf-8"))
    assert request["card"]["task"] == "Fix adding\n\nMind the sign."
    assert request["card"]["wants"] == ["test_adding.py::test_add"], "the rest of the card file holds"
    steps = [each["what"] for each in shown["timeline"] if each["kind"] in ("submitted", "step", "ended")]
    assert steps == ["submitted", "prepare", "worktree", "agent", "collect", "verify", "record", "ended"]
    assert {"verify base", "verify candidate", "turn 1", "agent begins"} <= {each["what"] for each in shown["timeline"]}
    assert all(each["seconds"] is not None for each in shown["timeline"] if each["kind"] == "step")


@pytest.mark.slow
def test_going_on_may_be_judged_by_another_command_too(stack: Terminal, small_repository: Path):
    turns = (*WRONG, edit("a * b", "a + b"), Turn(text="Fixed now."))
    with ScriptedEndpoint(lambda request: turns[min(request.turn, 3)]) as endpoint:
        env = local_model(endpoint.base_url)
        first = stack("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json", env=env).json
        before = contents(record(stack, first["id"]))
        words = ("rerun", first["id"], "--continue", "--verify", "grep -q 'a + b' adding.py", "--json")
        second = stack(*words, env=env).json
    assert (second["outcome"], second["parent_id"]) == ("verified", first["id"])
    assert second["verification"]["command"] == "grep -q 'a + b' adding.py"
    assert contents(record(stack, first["id"])) == before


@contextmanager
def refusing_at_first(turns: tuple[Turn, ...]) -> Generator[tuple[ScriptedEndpoint, Callable[[], None]]]:
    """An endpoint that takes no key until it is told to."""
    refuses = [True]

    def answer(request: Request) -> Turn:
        late = request.turn >= 1 and refuses[0]
        return Turn(fault="401") if late else turns[min(request.turn, len(turns) - 1)]

    with ScriptedEndpoint(answer) as endpoint:
        yield endpoint, lambda: refuses.__setitem__(0, False)


def test_one_that_failed_is_taken_up_where_its_agent_stopped(stack: Terminal, small_repository: Path):
    with refusing_at_first(RIGHT) as (endpoint, allow):
        env = local_model(endpoint.base_url)
        words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json")
        first = stack(*words, env=env).json
        assert (first["outcome"], first["failure_kind"]) == ("failed", "auth")
        patch = (record(stack, first["id"]) / "patch.diff").read_bytes()
        allow()
        asked_before = len(endpoint.calls)
        again = stack("rerun", first["id"], "--from", "agent", "--json")
        requests = len(endpoint.calls) - asked_before
    assert (again.code, again.json["outcome"]) == (0, "verified"), again.stderr
    assert (again.json["id"], again.json["flow_run_id"]) == (first["id"], first["flow_run_id"])
    assert requests == 1, "its first turn is not asked for again"
    folder = record(stack, first["id"])
    kept = json.loads((folder / "receipt.1.json").read_text(encoding="utf-8"))
    assert (kept["outcome"], kept["failure_kind"]) == ("failed", "auth")
    assert (folder / "earlier" / "1" / "patch.diff").read_bytes() == patch
    assert (folder / "earlier" / "1" / "failure.txt").is_file()
    refused = stack("rerun", first["id"], "--from", "agent")
    assert (refused.code, "is verified, so its agent's work is over" in refused.stderr) == (2, True)


def test_judging_again_in_the_ui_or_by_another_command_keeps_what_the_first_verdict_left(
    stack: Terminal, api: Api, small_repository: Path
):
    with ScriptedEndpoint(lambda request: WRONG[min(request.turn, 1)]) as endpoint:
        env = local_model(endpoint.base_url)
        words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json")
        first = stack(*words, env=env).json
        log = (record(stack, first["id"]) / "candidate.log").read_bytes()
        api.retry(first["flow_run_id"])
        after_retry = stack("show", first["id"], "--json").json
        accepted = stack("rerun", first["id"], "--from", "verify", "--verify", "grep -q 'a . b' adding.py", "--json")
        assert len(endpoint.calls) == 2, "no model is asked again"
    assert (after_retry["outcome"], after_retry["parent_id"]) == ("refuted", None)
    assert accepted.json["outcome"] == "verified", accepted.stderr
    folder = record(stack, first["id"])
    outcomes = [json.loads((folder / f"receipt.{n}.json").read_text(encoding="utf-8"))["outcome"] for n in (1, 2)]
    assert outcomes == ["refuted", "refuted"]
    assert (folder / "earlier" / "1" / "candidate.log").read_bytes() == log
    ends = [each["detail"] for each in accepted_timeline(stack, first["id"]) if each["kind"] == "ended"]
    assert [end.split(":")[0] for end in ends] == ["refuted", "refuted", "verified"]


def accepted_timeline(stack: Terminal, name: str) -> list[dict[str, Any]]:
    return stack("show", name, "--json").json["timeline"]


@pytest.mark.slow
def test_one_that_is_done_again_while_its_repository_is_away_is_told_as_failed_and_loses_nothing(
    stack: Terminal, api: Api, small_repository: Path
):
    with ScriptedEndpoint(lambda request: RIGHT[min(request.turn, 1)]) as endpoint:
        words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--json")
        first = stack(*words, env=local_model(endpoint.base_url)).json
    away = small_repository.rename(small_repository.with_name("away"))
    state = api.retry(first["flow_run_id"])["state"]
    assert (state["type"], "is gone since the delegation was submitted" in state["message"]) == ("FAILED", True), state

    def told() -> dict[str, Any] | None:
        """What a list says, which asks nobody."""
        (line,) = [each for each in stack("list", "--json").json["delegations"] if each["id"] == first["id"]]
        return line if line["state"] == "failed" else None

    waited_for(told, 90)
    failed = stack("show", first["id"], "--json").json
    assert (failed["failure_kind"], failed["patch"]["sha256"]) == ("process", first["patch"]["sha256"])
    assert "is gone since the delegation was submitted" in failed["failure_message"]
    assert "outcome:failed" in api.run(first["flow_run_id"])["tags"]
    assert stack("wait", first["id"]).code == 1
    away.rename(small_repository)
    again = stack("rerun", first["id"], "--from", "verify", "--json")
    assert (again.code, again.json["outcome"]) == (0, "verified"), again.stderr
    folder = record(stack, first["id"])
    kept = [json.loads((folder / f"receipt.{n}.json").read_text(encoding="utf-8"))["outcome"] for n in (1, 2)]
    assert kept == ["verified", "failed"]


def test_a_custom_run_from_the_parameters_of_another_is_a_delegation_of_its_own(
    stack: Terminal, api: Api, small_repository: Path
):
    def answer(request: Request) -> Turn:
        turns = RIGHT if "with a plus" in asked(request) else WRONG
        return turns[min(request.turn, 1)]

    with ScriptedEndpoint(answer) as endpoint:
        env = local_model(endpoint.base_url)
        words = ("run", "Fix it", "--repo", str(small_repository), "--verify", VERIFY, "--key", "mine", "--json")
        first = stack(*words, env=env).json
        before = contents(record(stack, first["id"]))
        original = api.ended(first["flow_run_id"])
        parameters = original["parameters"]
        parameters["request"]["card"]["task"] = "Fix it with a plus"
        made = api.custom_run(parameters, tuple(original["tags"]))
        run = api.ended(made["id"])
        again = api.retry(made["id"])
    assert run["state"]["name"] == "Verified", run["state"]
    (name,) = [tag for tag in run["tags"] if tag.startswith("dg-")]
    assert name != first["id"]
    assert {tag for tag in again["tags"] if tag.startswith(("dg-", "outcome:"))} == {name, "outcome:verified"}
    assert contents(record(stack, first["id"])) == before, "nothing of the first run is written anew"
    receipt = stack("show", name, "--json").json
    assert (receipt["parent_id"], receipt["flow_run_id"], receipt["outcome"]) == (first["id"], made["id"], "verified")
    assert f"started in the UI from the parameters of {first['id']}" in receipt["warnings"]
    assert [each["id"] for each in stack("show", first["id"], "--json").json["children"]] == [name]
    assert (record(stack, name) / "receipt.1.json").is_file(), "Retry is of this delegation, and of no third one"
    assert receipt["number"] == first["number"] + 1


def test_a_custom_run_that_cannot_be_is_refused_in_words_and_leaves_no_record(
    stack: Terminal, api: Api, small_repository: Path
):
    with ScriptedEndpoint(lambda request: WRONG[min(request.turn, 1)]) as endpoint:
        env = local_model(endpoint.base_url)
        first = stack("run", "Fix it", "--repo", str(small_repository), "--json", env=env).json
        parameters = api.ended(first["flow_run_id"])["parameters"]
    before = {path.name for path in (stack.home / "delegations").iterdir()}
    parameters["request"]["card"]["model"] = "nosuch"
    state = api.ended(api.custom_run(parameters)["id"])["state"]
    assert (state["type"], "unknown model 'nosuch'" in state["message"]) == ("FAILED", True), state
    parameters["request"]["id"] = "dg-20200101t000000000-zzzz"
    state = api.ended(api.custom_run(parameters)["id"])["state"]
    assert (state["type"], "'dg-20200101t000000000-zzzz'" in state["message"]) == ("FAILED", True), state
    assert {path.name for path in (stack.home / "delegations").iterdir()} == before
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("delegation/delegation", {"card": {"task": "x", "repo": "/r", "verfy": "red"}},
         "UsageError: card.verfy is an unknown key: did you mean 'verify'? Nothing was done."),
        ("delegation/delegation", {}, "neither a card nor a request was given: fill in `card`"),
        ("night_shift/night", {"cards": "/nosuch", "in_flight": "many"},
         "UsageError: in_flight must be a whole number, not 'many'. Nothing was done. Choose 'Copy to new run'"),
        ("night_shift/night", {"cards": "/nosuch"}, "there is no folder or file '/nosuch'"),
        ("comparison/comparison", {"models": "a"}, "UsageError: models must be a list of texts, not 'a'."),
    ]  # fmt: skip
    runs = [api.custom_run(given, deployment=name)["id"] for name, given, _ in wrong]
    for run, (_, _, said) in zip(runs, wrong, strict=True):
        ended = api.ended(run)
        assert (ended["state"]["type"], said in ended["state"]["message"]) == ("FAILED", True), ended["state"]
    assert {path.name for path in (stack.home / "delegations").iterdir()} == before


def test_the_form_has_every_field_of_a_card_with_its_words_and_a_bare_card_runs(
    stack: Terminal, api: Api, small_repository: Path
):
    from delegation.card import Card

    schema = api.deployment()["parameter_openapi_schema"]
    assert set(schema["properties"]) == {"card", "request"}
    assert schema.get("required", []) == []
    fields = schema["definitions"]["Card"]["properties"]
    assert {name: field["description"] for name, field in fields.items()} == {
        name: field.description for name, field in Card.model_fields.items()
    }
    with ScriptedEndpoint(lambda request: RIGHT[min(request.turn, 1)]) as endpoint, config(stack, endpoint.base_url):
        card = {"task": "Fix it", "repo": str(small_repository), "verify": VERIFY, "model": "of-the-form"}
        made = api.custom_run({"card": card})
        run = api.ended(made["id"])
        again = api.retry(made["id"])
        asked_for = len(endpoint.calls)
    assert (run["state"]["name"], again["state"]["name"]) == ("Verified", "Verified"), run["state"]["message"]
    names = [tag for tag in again["tags"] if tag.startswith("dg-")]
    receipt = stack("show", names[0], "--json").json
    assert (len(names), asked_for, receipt["flow_run_id"]) == (1, 2, made["id"])
    assert receipt["parent_id"] is None


@contextmanager
def config(stack: Terminal, base_url: str) -> Generator[None]:
    """A model of the stack's own settings: a run from the form has nobody else's."""
    file = stack.home / "config" / "delegate.toml"
    file.parent.mkdir(exist_ok=True)
    entry = f'[models.of-the-form]\nbase_url = "{base_url}"\nformat = "openai"\nlane = "local"\n'
    file.write_text(entry, encoding="utf-8")
    try:
        yield
    finally:
        file.unlink()
