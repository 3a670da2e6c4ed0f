"""Claude Code on a model of a chain that gives up: another model goes on in the same tree, and is told so."""

from pathlib import Path

import pytest
from front import Front

from delegation.errors import WorkFailed
from delegation.harnesses.choice import Chosen
from delegation.request import DelegationRequest
from delegation.steps import collect, course, hand_over, make_worktree, note_giving_up, record, work_by_harness
from tests.doubles.harness_jobs import program

MODELS = """
[models.first]
base_url = "http://127.0.0.1:9"
model = "one"
format = "anthropic"
chain = ["other", "second"]
[models.second]
base_url = "http://127.0.0.1:9"
model = "two"
format = "anthropic"
[models.other]
base_url = "http://127.0.0.1:9"
model = "three"
format = "openai"
"""
CLAUDE = """#!/bin/sh
cat > said.$ANTHROPIC_MODEL
case "$ANTHROPIC_MODEL" in
 one) echo half > half.txt
   echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"overloaded"}'; exit 1;;
 two) echo whole > whole.txt
   echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","num_turns":1,"session_id":"s"}';;
esac
"""


@pytest.fixture
def request_(front: Front, tmp_path: Path) -> DelegationRequest:
    config = front.home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(MODELS, encoding="utf-8")
    front.environ["PATH"] = f"{program(tmp_path, 'claude', CLAUDE).parent}:{front.environ['PATH']}"
    return front.records.request(front.keep(agent="claude", model="first"))


def test_only_models_of_the_chain_that_the_program_can_ask_are_in_it(request_: DelegationRequest):
    assert [each.alias for each in request_.chain] == ["second"]


def test_programs_with_a_login_of_their_own_have_no_chain(front: Front, tmp_path: Path, request_: DelegationRequest):
    front.environ["DELEGATE_CODEX_BIN"] = str(program(tmp_path, "codex", "#!/bin/sh\necho codex-cli 0.171.0\n"))
    assert front.records.request(front.keep(agent="codex", number=2)).chain == ()
    assert Chosen.chain_of.__doc__
    assert request_.chain


def test_the_next_model_goes_on_in_the_same_tree_and_the_receipt_has_both(request_: DelegationRequest):
    order, tree = request_.order, make_worktree(request_)
    assert order is not None
    with pytest.raises(WorkFailed) as failed:
        work_by_harness(request_, tree, order, endpoint=request_.endpoint)
    assert failed.value.kind == "overloaded"
    note_giving_up(request_, request_.endpoint, failed.value)
    (second,) = course(request_).candidates
    assert second.alias == "second"
    hand_over(request_, tree, second)
    work = work_by_harness(request_, tree, order, endpoint=second)
    said = (Path(tree.root) / "said.two").read_text(encoding="utf-8")
    assert said.startswith("Another model (first) began the task below and could not go on.")
    assert "half.txt" in said
    assert said.endswith(f"\n\n{request_.card.task}")
    assert [(each.alias, each.failure_kind) for each in work.attempts] == [("first", "overloaded"), ("second", None)]
    receipt = record(request_, collect(request_, tree), None, None)
    assert (receipt.model_used, receipt.failed_over_from) == ("second", "first")
    assert receipt.patch is not None
    assert receipt.patch.files == 4


def test_a_model_that_begins_is_told_nothing_of_others(request_: DelegationRequest):
    order, tree = request_.order, make_worktree(request_)
    assert order is not None
    hand_over(request_, tree, request_.chain[0])
    work_by_harness(request_, tree, order, endpoint=request_.chain[0])
    assert (Path(tree.root) / "said.two").read_text(encoding="utf-8") == request_.card.task
