"""The tutorial of the core: one idea per test, in the order in which a delegation meets them.

No Prefect here: these are the plain functions that the six steps call.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from delegation.card import Card
from delegation.checkout import patch as patches
from delegation.checkout import worktree as trees
from delegation.checkout.git import git
from delegation.checkout.worktree import Worktree
from delegation.home import Home
from delegation.ids import new_id
from delegation.outcome import outcome_of
from delegation.sample import VERIFY, make_repository
from delegation.verdict import verify

GOOD = "    middle = len(ordered) // 2\n    return (ordered[middle] + ordered[~middle]) / 2\n"
BAD = "    return 2.5\n"
BUG = "    return ordered[len(ordered) // 2]\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A package with one bug, and a test that shows it."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "home", config_file=tmp_path / "home" / "config" / "delegate.toml")


@pytest.fixture
def worktree(repository: Path, home: Home) -> Iterator[Worktree]:
    """A tree of its own for one agent, at the repository's HEAD."""
    name = new_id("dg")
    made = trees.create(
        delegation_id=name,
        repo=repository,
        base_commit=None,
        workdir=".",
        isolation="worktree",
        include_dirty=False,
        place=home.worktrees / name,
        home=home,
    )
    yield made
    made.ledger.release(made.name)


def test_a_card_says_what_is_wanted_and_the_rest_has_defaults(repository: Path):
    card = Card(task="Fix the bug", repo=str(repository))
    assert (card.base, card.expects, card.accept, card.isolation) == ("HEAD", "change", "pass", "worktree")


def test_an_agent_works_in_a_tree_of_its_own_and_the_repository_stays_as_it_is(repository: Path, worktree: Worktree):
    edit(worktree, GOOD)
    assert not Path(worktree.root).is_relative_to(repository)
    assert git("status", "--porcelain", cwd=repository) == ""
    assert BUG in (repository / "statistics_tools.py").read_text(encoding="utf-8")


def test_what_the_agent_changed_is_one_patch_and_a_branch(repository: Path, worktree: Worktree, tmp_path: Path):
    edit(worktree, GOOD)
    patch = patches.collect(worktree, out=tmp_path / "patch.diff", message="Fix the median")
    assert patch is not None
    assert (patch.files, patch.insertions, patch.deletions) == (1, 2, 1)
    assert git("diff", patch.base_commit, str(patch.branch), cwd=repository) != ""


def test_no_change_is_no_patch(worktree: Worktree, tmp_path: Path):
    assert patches.collect(worktree, out=tmp_path / "patch.diff", message="Nothing") is None


@pytest.mark.parametrize(("repair", "verdict", "outcome"), [(GOOD, "passed", "verified"), (BAD, "failed", "refuted")])
def test_the_verdict_comes_from_the_projects_tests_and_not_from_a_claim(
    repository: Path, home: Home, worktree: Worktree, tmp_path: Path, repair: str, verdict: str, outcome: str
):
    edit(worktree, repair)
    patch = patches.collect(worktree, out=tmp_path / "patch.diff", message="Fix the median")
    assert patch is not None
    verification = verify(
        repo=repository,
        base_commit=patch.base_commit,
        patch_file=Path(patch.path),
        command=VERIFY,
        setup=None,
        wants=(),
        accept="pass",
        place=tmp_path / "verify",
        baselines=home.baselines,
        record_dir=tmp_path / "record",
        confinement="auto",
        network=True,
        timeout_seconds=60,
    )
    assert verification.base is not None
    assert (verification.base.verdict, verification.verdict) == ("failed", verdict)
    told = outcome_of(expects="change", failed=False, cancelled=False, has_patch=True, verification=verification)
    assert told == outcome


def test_applying_the_patch_changes_your_files_and_nothing_else(repository: Path, worktree: Worktree, tmp_path: Path):
    edit(worktree, GOOD)
    patch = patches.collect(worktree, out=tmp_path / "patch.diff", message="Fix the median")
    assert patch is not None
    patches.apply_patch(repository, Path(patch.path), patch.base_commit)
    assert git("status", "--porcelain", cwd=repository) == " M statistics_tools.py\n"


def edit(worktree: Worktree, repair: str) -> None:
    """What an agent would do."""
    source = Path(worktree.root) / "statistics_tools.py"
    source.write_text(source.read_text(encoding="utf-8").replace(BUG, repair), encoding="utf-8")
