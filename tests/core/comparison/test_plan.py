"""What a comparison is to be: one card and commit for all, no model in another's place; or a refusal and nothing."""

import os
import subprocess
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from delegation.comparison.planning import MOST_TRIALS
from delegation.errors import ConflictError, NotFoundError, UsageError
from delegation.kept_keys import clear_keys

if TYPE_CHECKING:
    from tests.core.comparison.conftest import Bench


def test_every_trial_is_pinned_to_its_model_and_begins_at_the_same_commit(bench: "Bench"):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=bench.repo, capture_output=True, text=True, check=True)
    plan = bench.plan("a, b", "local-c", card=bench.card(model="b", key=None), repeats=2)
    requests = [plan.request_of(trial, plan.created_at) for trial in plan.trials]

    assert [(each.model, each.repeat) for each in plan.trials] == [
        ("a", 1), ("b", 1), ("local-c", 1), ("a", 2), ("b", 2), ("local-c", 2),
    ]  # fmt: skip
    assert [request.endpoint.alias for request in requests] == ["a", "b", "local-c"] * 2
    assert {(request.base_commit, request.card.base) for request in requests} == {(head.stdout.strip(),) * 2}
    assert {request.chain for request in requests} == {()}, "a has the chain b, which must not take its place"
    assert {(request.parent_id, request.tool) for request in requests} == {(plan.id, "compare")}
    assert {request.limits.max_turns for request in requests} == {60}, "a local model has 25 alone"
    assert [request.id for request in requests] == sorted({each.delegation_id for each in plan.trials})
    assert len({request.card.key for request in requests}) == 6


def test_the_ids_of_many_trials_are_all_different(bench: "Bench"):
    plan = bench.plan("a", "b", "local-c", repeats=50)
    assert len({trial.delegation_id for trial in plan.trials}) == 150


@pytest.mark.parametrize(
    ("models", "card", "given", "text"),
    [
        (("a",), {}, {}, "a comparison needs two models or more, and 1 was given"),
        (("a,a",), {}, {}, "model 'a' is named twice"),
        (("a,nosuch",), {}, {}, "nosuch"),
        (("a,b",), {}, {"repeats": 0}, "repeats must be from 1 to 50, not 0"),
        (("a,b",), {}, {"in_flight": 0}, "in_flight must be from 1 to 200, not 0"),
        ((",".join(f"m{n}" for n in range(21)),), {}, {}, "21 models are too many"),
        ((",".join(f"m{n}" for n in range(5)),), {}, {"repeats": 50}, f"are 250 delegations: at most {MOST_TRIALS}"),
        (("a,b",), {"include_dirty": True}, {}, "include_dirty cannot be compared"),
        (("a,b",), {"isolation": "in_place"}, {}, "isolation 'in_place' cannot be compared"),
        (("a,b",), {"isolation": "copy"}, {}, "isolation 'copy' cannot be compared"),
        (("a,b",), {"provider_url": "http://127.0.0.1:9/v1"}, {}, "provider_url names one provider's model"),
        (("a,b",), {"base": "nosuch"}, {}, "nosuch"),
        (("a,b",), {"lane": "local"}, {}, "lane"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_nothing_is_left(
    bench: "Bench", models: tuple[str, ...], card: dict[str, Any], given: dict[str, Any], text: str
):
    with pytest.raises(UsageError, match=text.replace("(", r"\(")):
        bench.plan(*models, card=bench.card(**card), **given)
    home = bench.settings.home
    assert not home.comparisons.exists()
    assert not home.secrets.exists()
    assert not home.delegations.exists()


def test_a_model_without_its_key_is_refused_by_the_name_of_the_variable(bench: "Bench"):
    del bench.environ["KEY_OF_A"]
    with pytest.raises(UsageError, match="KEY_OF_A"):
        bench.plan("b", "a")


def test_what_makes_it_unfair_or_says_little_is_told_before_it_begins(bench: "Bench"):
    text = "\n".join(bench.plan("a", "b", "local-c").warnings)
    assert "with 1 of each, even all against none is not told apart: 4 are needed" in text
    assert "the shells of 'local-c' have no network" in text
    config = bench.settings.home.config_file
    config.write_text(config.read_text() + '[models.a-again]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "a-1"\n')
    same = bench.plan("a", "a-again", repeats=4)
    assert same.warnings == ("'a' and 'a-again' are the same model at the same endpoint",)
    assert "no verify command" in bench.plan("a", "b", card=bench.card(verify=None), repeats=4).warnings[0]


def test_the_same_key_is_the_same_comparison_and_another_one_is_refused(bench: "Bench"):
    keyed = bench.card(key="k")
    first = bench.store.create(bench.plan("a", "b", card=keyed))
    (bench.repo / "calc.py").write_text("x = 2\n")
    subprocess.run(["git", "commit", "-qam", "more"], cwd=bench.repo, check=True)
    assert bench.store.create(bench.plan("a", "b", card=keyed)) == first, "its base is the commit of the first call"
    with pytest.raises(ConflictError, match="the key 'k' already stands for"):
        bench.store.create(bench.plan("a", "b", card=keyed, repeats=2))
    assert bench.store.ids() == [first.id]


def test_a_comparison_is_found_by_a_part_of_its_id(bench: "Bench"):
    first = bench.store.create(bench.plan("a", "b"))
    second = bench.store.create(bench.plan("a", "b", now=first.created_at + timedelta(seconds=1)))
    assert bench.store.resolve(first.id[-4:]) == first.id
    assert bench.store.resolve(second.id) == second.id
    assert bench.store.read(first.id) == first
    with pytest.raises(UsageError, match="fits 2 comparisons"):
        bench.store.resolve("cmp-2026")
    with pytest.raises(NotFoundError):
        bench.store.resolve("cmp-1999")
    with pytest.raises(UsageError, match="is not the id of a comparison"):
        bench.store.folder("../../etc")


def test_the_keys_of_trials_that_have_not_begun_are_kept(bench: "Bench"):
    plan = bench.store.create(bench.plan("a", "b"))
    (key,) = list(bench.settings.home.secrets.iterdir())
    before = time.time() - 2 * 24 * 3600
    os.utime(key, (before, before))
    assert clear_keys(bench.settings.home, keep_days=7) == 0
    assert key.exists()
    os.utime(bench.store.folder(plan.id) / "comparison.json", (before - 7 * 24 * 3600, before - 7 * 24 * 3600))
    assert clear_keys(bench.settings.home, keep_days=7) == 1
