"""A delegation's steps in this process, from its card to its receipt: what the agent really did is in there."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from front import Front, Ran

from delegation.receipt import Cost, Receipt
from delegation.request import DelegationRequest, Endpoint
from delegation.scripted.endpoint import Call, ScriptedEndpoint, Turn
from tests.core.agents.prompt_cache import PromptCache, marked
from tests.core.steps.one_run import through_the_steps

Done = Callable[..., Receipt]
Other = Callable[[DelegationRequest], Endpoint]
HALF_A_DOLLAR = {"x-litellm-response-cost": "0.5"}


@pytest.fixture
def done(front: Front) -> Done:
    """`done(turns, model=..., confinement=...)`: prepare, worktree, agent, collect and record; no tests are run."""

    def doing(
        turns: Sequence[Turn] | PromptCache,
        *,
        model: str = "local-scripted",
        chains: Sequence[Other] = (),
        **fields: Any,
    ) -> Receipt:
        with ScriptedEndpoint(turns) as server:
            front.environ |= {"DELEGATE_LOCAL_URL": server.base_url, "DELEGATE_LOCAL_MODEL": model}
            delegation_id = front.keep(**fields)
            request = front.records.request(delegation_id)
            request = request.model_copy(update={"chain": tuple(chain(request) for chain in chains)})
            return through_the_steps(request)

    return doing


def bash(command: str) -> Turn:
    return Turn(calls=(Call("run_bash", {"command": command}),))


def test_what_commands_returned_stands_beside_what_the_model_says(done: Done):
    malformed = Turn(calls=(Call("read_file", {"file": "calc.py"}),))
    receipt = done([bash("exit 3"), malformed, bash("true"), bash("exit 1"), Turn(text="All tests pass.")])
    assert (receipt.claim, receipt.outcome) == ("All tests pass.", "no_change")
    facts = (receipt.tool_calls, receipt.malformed_calls, receipt.nudges, receipt.last_bash_exit, receipt.bash_failures)
    assert facts == (4, 1, 0, 1, 2)


def test_cache_hits_and_each_kind_of_cost_are_in_the_receipt(done: Done, front: Front, call: Callable[..., Ran]):
    cache = PromptCache([bash("echo 1"), bash("echo 2"), Turn(text="Done.")])
    receipt = done(cache, model="local-claude-scripted", expects="answer")
    assert receipt.usage is not None
    assert cache.hits[0] == 0 < cache.hits[1] < cache.hits[2]
    assert (receipt.usage.input_tokens, receipt.usage.cached_tokens) == (sum(cache.sizes), sum(cache.hits))
    assert receipt.costs == (receipt.cost,)
    total = sum(cache.sizes)
    assert f"cached     {sum(cache.hits)} of {total} prompt tokens" in call("show", receipt.id).stdout
    assert f"[tokens: {total} prompt / 21 completion / {total + 21} total]" in call("show", receipt.id).stdout


def test_kinds_of_cost_that_mix_are_never_added(done: Done, call: Callable[..., Ran]):
    receipt = done([Turn(calls=(Call("list_files", {}),), headers=HALF_A_DOLLAR), Turn(text="Done.")])
    assert receipt.cost == Cost(amount_usd=None, kind="unknown")
    assert receipt.costs == (Cost(amount_usd=0.5, kind="reported"), Cost(amount_usd=None, kind="unknown"))
    assert "cost       $0.500000 and unknown\n" in call("show", receipt.id).stdout
    assert "local-scripted  $0.500000 and unknown  Fix it\n" in call("list").stdout


def test_without_walls_a_change_of_the_users_own_checkout_is_said_with_its_names(done: Done, front: Front):
    path = front.repo / "calc.py"
    before = path.read_bytes()
    receipt = done(
        [
            Turn(calls=(Call("write_file", {"path": str(path), "content": "by the tool"}),)),
            bash(f"sed -i s/double/DOUBLE/ {path}; echo > {front.repo}/made.py"),
            Turn(text="Done."),
        ],
        confinement="off",
    )
    assert path.read_bytes() == before.replace(b"double", b"DOUBLE")
    (warning,) = [each for each in receipt.warnings if "your own checkout" in each]
    assert "'calc.py', 'made.py'" in warning
    assert (receipt.outcome, receipt.patch) == ("no_change", None)


def test_without_walls_a_checkout_that_nobody_touched_is_not_spoken_of(done: Done, front: Front):
    os.utime(front.repo / ".git" / "index")
    receipt = done([bash("echo 1 >> calc.py"), Turn(text="Done.")], confinement="off")
    assert receipt.patch is not None
    assert [each for each in receipt.warnings if "own checkout" in each] == []


def test_behind_walls_the_users_own_checkout_cannot_be_changed(done: Done, front: Front):
    path = front.repo / "calc.py"
    before = path.read_bytes()
    receipt = done([bash(f"sed -i s/double/DOUBLE/ {path}; echo > {front.repo}/made.py"), Turn(text="Done.")])
    if receipt.confined_by is None:
        pytest.skip("nothing confines on this machine")
    assert path.read_bytes() == before
    assert not (front.repo / "made.py").exists()


def test_a_failed_run_keeps_its_change_and_what_it_took(done: Done):
    empty = Turn(text=" ", usage={"input": 10, "output": 5}, headers=HALF_A_DOLLAR, times=-1)
    change = Turn(calls=(Call("run_bash", {"command": "echo 1 >> calc.py"}),), headers=HALF_A_DOLLAR)
    receipt = done([change, empty])
    assert (receipt.outcome, receipt.failure_kind) == ("failed", "empty_answer")
    assert receipt.patch is not None
    assert receipt.usage is not None
    assert receipt.usage.requests == 5
    assert receipt.cost == Cost(amount_usd=2.5, kind="reported")


def test_marks_stand_in_the_bytes_of_the_request(done: Done):
    bodies: list[dict[str, Any]] = []

    def answer(request: Any) -> Turn:
        bodies.append(json.loads(json.dumps(request.body)))
        return Turn(text="Done.")

    done(answer, model="local-claude-scripted", expects="answer")
    assert marked(bodies[0]) == ["tools", "system", "0"]


def test_no_key_of_a_model_that_may_get_the_work_stands_in_the_log(
    done: Done, front: Front, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTHER_KEY", "sk-of-the-next-model")

    def following(request: DelegationRequest) -> Endpoint:
        return request.endpoint.model_copy(update={"alias": "other", "key_ref": "env:OTHER_KEY"})

    def gone(request: DelegationRequest) -> Endpoint:
        return request.endpoint.model_copy(update={"alias": "gone", "key_ref": "env:NOT_SET"})

    receipt = done(
        [bash("echo sk-of-this-test; echo sk-of-the-next-model; env"), Turn(text="Done.")], chains=(following, gone)
    )
    log = (front.records.folder(receipt.id) / "trajectory.jsonl").read_text(encoding="utf-8")
    assert receipt.stop_reason == "submitted"
    assert "[secret removed]" in log
    assert "sk-of-this-test" not in log
    assert "sk-of-the-next-model" not in log
    assert "OTHER_KEY" not in log
