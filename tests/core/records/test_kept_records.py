"""Which records may be cleared away, and that none goes which somebody may still need."""

import json
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from past import PastRecords

from delegation.card import Card
from delegation.checkout.ledger import Ledger
from delegation.errors import ConflictError, NotFoundError, UsageError
from delegation.home import Home
from delegation.kept_records import prune
from delegation.records import Progress
from delegation.records.applied import Applied, note_applied
from delegation.records.index import History
from delegation.records.removed import all_removed
from delegation.records.retention import RecordPolicy, policy_of
from delegation.settings import load_settings
from delegation.shared_state import SharedState, migrate
from delegation.submitting import enter

OLD = timedelta(days=40)
ALL = RecordPolicy(days=0)


@pytest.fixture
def past(tmp_path: Path) -> PastRecords:
    return PastRecords(tmp_path / "home")


def reasons(past: PastRecords, policy: RecordPolicy = ALL) -> dict[str, str]:
    """Why each that the limits take stays; nothing is removed."""
    return {each.id: each.reason for each in prune(past.home, policy, only_look=True).kept}


def test_without_a_limit_everything_stays(past: PastRecords):
    names = [past.add("refuted", ago=OLD) for _ in range(3)]
    done = prune(past.home, RecordPolicy())
    assert (done.removed, done.kept, done.has_limits) == ((), (), False)
    assert sorted(past.store.ids()) == sorted(names)


def test_age_number_and_room_each_take_the_oldest(past: PastRecords):
    old, middle, new = (past.add("refuted", ago=timedelta(days=days)) for days in (40, 20, 1))

    def would_go(**limits: Any) -> list[str]:
        return [each.id for each in prune(past.home, RecordPolicy(**limits), only_look=True).removed]

    assert would_go(days=30) == [old]
    assert would_go(count=1) == [old, middle]
    size = sum(path.stat().st_size for path in past.store.folder(new).rglob("*"))
    assert would_go(budget_bytes=int(size * 2.5)) == [old]
    assert would_go(budget_bytes=0) == [old, middle, new]
    assert past.store.ids() == [new, middle, old], "looking removes nothing"


def test_what_goes_is_gone_and_whoever_asks_for_it_is_told(past: PastRecords):
    old, new = past.add("refuted", ago=OLD), past.add("refuted")
    past.aged()
    list(History(past.home).rows())
    assert old.encode() in (past.home.delegations / "index.sqlite").read_bytes()
    done = prune(past.home, RecordPolicy(days=30))
    assert [(each.id, each.number) for each in done.removed] == [(old, 1)]
    assert done.removed[0].reason.startswith("ended 40.0 days ago, and the limit is 30")
    assert done.freed_bytes > 500
    assert past.store.ids() == [new]
    assert [(each.id, each.outcome) for each in all_removed(past.home)] == [(old, "refuted")]
    for text in (old, "1"):
        with pytest.raises(NotFoundError, match=f"the record of '{old}' was cleared away on 20.*: ended 40"):
            past.store.resolve(text)
    with pytest.raises(NotFoundError, match="no delegation 'nosuch'"):
        past.store.resolve("nosuch")
    assert old.encode() not in (past.home.delegations / "index.sqlite").read_bytes()


@pytest.mark.parametrize("progress", [
    Progress(step="agent"),
    Progress(step="waiting", queue_reason="cooldown", parked_until=None),
    Progress(step="submitted", detail="verify again"),
])  # fmt: skip
def test_what_has_not_ended_stays_also_where_it_is_done_again(past: PastRecords, progress: Progress):
    works, again = past.add(None, ago=OLD), past.add("refuted", ago=OLD)
    past.store.write_status(works, progress)
    past.store.write_status(again, progress)
    assert reasons(past, RecordPolicy(count=0)) == dict.fromkeys((works, again), "it has not ended")


def test_an_accepted_change_stays_until_it_is_applied(past: PastRecords):
    names = {outcome: past.add(outcome, ago=OLD, patch=b"+x\n") for outcome in ("verified", "unverified", "refuted")}
    past.add("verified", ago=OLD)  # it had no change
    in_place = past.add("answered", ago=OLD, patch=b"+x\n", isolation="in_place")
    kept = reasons(past)
    assert kept == {
        names["verified"]: "its change is verified and was not applied",
        names["unverified"]: "its change is unverified and was not applied",
    }
    note_applied(past.store.folder(names["verified"]), Applied(how="working_tree", where="/r"))
    (past.store.folder(names["unverified"]) / "undo.diff").write_text("", encoding="utf-8")  # by an older version
    assert reasons(past) == {}
    gone = {each.id for each in prune(past.home, ALL).removed}
    assert {*names.values(), in_place} <= gone


@pytest.mark.parametrize(("how", "then", "stays"), [
    ("working_tree", "", False),
    ("working_tree", "git apply -R {patch}", True),
    ("working_tree", "echo more >> a.txt && git commit -qam more", False),
    ("branch", "git apply -R {patch}", False),
    ("branch", "git apply -R {patch} && git branch -qD mine", True),
])  # fmt: skip
def test_a_change_that_was_taken_back_after_it_was_applied_stays(
    past: PastRecords, tmp_path: Path, how: Any, then: str, stays: bool
):
    repo = tmp_path / "repo"
    named = "git -c user.name=M -c user.email=m@example.invalid"
    subprocess.run(f"git init -qb main {repo} && cd {repo} && echo old > a.txt && git add a.txt && "
                   f"{named} commit -qm base && git branch mine", shell=True, check=True)  # fmt: skip
    change = b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-old\n+new\n"
    name = past.add("verified", ago=OLD, patch=change, repo=str(repo))
    patch = past.store.folder(name) / "patch.diff"
    note_applied(past.store.folder(name), Applied(how=how, where="mine" if how == "branch" else str(repo)))
    commands = f"git apply {patch} && {then.format(patch=patch) or 'true'}".replace("git commit", f"{named} commit")
    subprocess.run(commands, shell=True, cwd=repo, check=True)
    said = {name: "its change was applied and then taken back: it can be applied again"} if stays else {}
    assert reasons(past) == said


def test_a_change_that_another_patch_took_the_place_of_was_not_applied(past: PastRecords):
    """A run that was taken up again, after what it had by then was applied."""
    name = past.add("verified", ago=OLD, patch=b"+x\n")
    folder = past.store.folder(name)
    note_applied(folder, Applied(how="working_tree", where="/r", sha256="1" * 64))
    assert reasons(past) == {name: "its change is verified and was not applied"}
    note_applied(folder, Applied(how="working_tree", where="/r", sha256="0" * 64))
    assert reasons(past) == {}


def test_what_a_kept_one_was_made_from_stays_and_so_on(past: PastRecords):
    first = past.add("refuted", ago=OLD)
    second = past.add("refuted", ago=OLD, parent_id=first)
    third = past.add("verified", ago=OLD, parent_id=second, patch=b"+x\n")
    other = past.add("refuted", ago=OLD, parent_id=past.add("refuted", ago=OLD))
    assert reasons(past) == {
        first: f"{second} refers to it, and is kept",
        second: f"{third} refers to it, and is kept",
        third: "its change is verified and was not applied",
    }
    gone = {each.id for each in prune(past.home, ALL).removed}
    assert (other in gone, len(gone), len(past.store.ids())) == (True, 2, 3)


def test_a_younger_rerun_keeps_the_one_that_it_was_made_from(past: PastRecords):
    first = past.add("refuted", ago=OLD)
    second = past.add("verified", parent_id=first)
    assert reasons(past, RecordPolicy(days=30)) == {first: f"{second} refers to it, and is kept"}


def test_what_was_applied_together_with_a_kept_one_stays(past: PastRecords):
    old, new = past.add("verified", ago=OLD, patch=b"+x\n"), past.add("verified", patch=b"+x\n")
    for name in (old, new):
        note_applied(past.store.folder(name), Applied(how="together", where="/r", ids=(old, new)))
    assert reasons(past, RecordPolicy(days=30)) == {old: f"{new} refers to it, and is kept"}


@pytest.mark.parametrize(("folder", "what"), [("nights", "night"), ("comparisons", "comparison")])
def test_what_a_night_or_a_comparison_has_stays_as_long_as_that_does(past: PastRecords, folder: str, what: str):
    name = past.add("refuted", ago=OLD)
    place: Path = getattr(past.home, folder) / "x-20261130"
    place.mkdir(parents=True)
    (place / "children.jsonl").write_text(json.dumps({"delegation_id": name}) + "\n", encoding="utf-8")
    assert reasons(past) == {name: f"the {what} x-20261130 has it"}
    shutil.rmtree(place)
    assert reasons(past) == {}


def test_a_record_whose_tree_is_there_stays(past: PastRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    name = past.add("failed", ago=OLD, failure_kind="auth")
    entry = SimpleNamespace(delegation_id=name, removed=False)

    def entries(_: Ledger) -> tuple[Any, ...]:
        return (entry,)

    monkeypatch.setattr(Ledger, "entries", entries)
    assert reasons(past) == {name: "its tree is still there"}
    entry.removed = True
    assert reasons(past) == {}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    _git(tmp_path, "init", "-q", str(place))
    _git(place, "-c", "user.name=U", "-c", "user.email=u@x.invalid", "commit", "-q", "--allow-empty", "-m", "base")
    return place


def _git(cwd: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def _published(past: PastRecords, repo: Path, outcome: str) -> str:
    """An old one with a change that is also a branch and a ref in the repository."""
    name = past.add(outcome, ago=OLD, patch=b"+x\n", repo=str(repo))
    identity = ("-c", "user.name=U", "-c", "user.email=u@x.invalid")
    commit = _git(repo, *identity, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", name)
    _git(repo, "branch", f"delegate/{name}", commit)
    _git(repo, "update-ref", f"refs/delegate/{name}/patch", commit)
    return name


def test_with_an_applied_change_its_branch_and_refs_go_and_that_undo_is_over_is_said(past: PastRecords, repo: Path):
    name = _published(past, repo, "verified")
    folder = past.store.folder(name)
    note_applied(folder, Applied(how="working_tree", where=str(repo)))
    (folder / "undo.diff").write_text("x", encoding="utf-8")
    before = _git(repo, "for-each-ref")
    looked = prune(past.home, ALL, only_look=True).removed[0]
    assert _git(repo, "for-each-ref") == before
    done = prune(past.home, ALL).removed[0]
    assert looked.remarks == done.remarks
    assert f"delegate/{name}" in before
    assert name not in _git(repo, "for-each-ref")
    told = " ".join(done.remarks)
    assert f"with it: delegate/{name}, refs/delegate/{name}/patch in {repo}" in told
    assert "the undo command that `apply` printed no longer works" in told


def test_a_change_that_was_not_applied_keeps_its_branch_and_how_to_remove_it_is_said(past: PastRecords, repo: Path):
    """The record of a refuted one may go; the change itself is deleted by nobody but the user."""
    name = _published(past, repo, "refuted")
    before = _git(repo, "for-each-ref")
    done = prune(past.home, ALL)
    assert [each.id for each in done.removed] == [name]
    assert _git(repo, "for-each-ref") == before
    (stays,) = done.removed[0].remarks
    assert f"its change was not applied, so these stay in {repo}: delegate/{name}, refs/delegate/{name}/patch" in stays
    command = stays.partition("remove them with: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert name not in _git(repo, "for-each-ref")


def test_a_repository_that_is_away_keeps_no_record_from_going(past: PastRecords, repo: Path):
    name = _published(past, repo, "refuted")
    shutil.rmtree(repo)
    assert [(each.id, each.remarks) for each in prune(past.home, ALL).removed] == [(name, ())]
    broken = past.add("refuted", ago=OLD, patch=b"+x\n", repo=str(repo))
    repo.mkdir()
    (repo / ".git").write_text("gitdir: /nowhere", encoding="utf-8")
    (gone,) = prune(past.home, ALL).removed
    assert (gone.id, past.store.ids()) == (broken, [])


def test_what_cannot_be_read_is_left_alone(past: PastRecords):
    name = past.add("refuted", ago=OLD)
    (past.store.folder(name) / "receipt.json").write_text("{", encoding="utf-8")
    done = prune(past.home, RecordPolicy(count=0))
    assert done.removed == ()
    assert "cannot be read" in done.kept[0].reason


def test_one_that_begins_again_at_the_last_moment_stays(past: PastRecords, monkeypatch: pytest.MonkeyPatch):
    from delegation import kept_records

    name = past.add("refuted", ago=OLD)

    def begins_again(home: Home, *_: Any) -> dict[str, str]:
        past.store.write_status(name, Progress(step="submitted", detail="verify again"))
        return {}

    monkeypatch.setattr(kept_records, "_needed", begins_again)
    assert prune(past.home, ALL).removed == ()
    assert past.store.ids() == [name]


def test_a_removal_that_was_broken_off_is_finished_by_the_next(past: PastRecords):
    past.add("refuted")
    half = past.home.delegations / ".going-dg-20261130t113652417-aaaa"
    half.mkdir()
    (half / "patch.diff").write_text("x", encoding="utf-8")
    assert len(past.store.ids()) == 1
    prune(past.home, RecordPolicy())
    assert not half.exists()


def test_a_key_of_a_record_that_is_gone_is_refused_and_starts_nothing(past: PastRecords, tmp_path: Path):
    name = past.add("refuted", ago=OLD)
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    migrate(url)
    request = past.store.request(name)
    keyed = request.model_copy(update={"card": Card(task="Fix", repo="/r", key="mine")})
    shutil.rmtree(past.store.folder(name))
    with SharedState(url) as state:
        assert enter(state, past.store, keyed).is_new
        past.store.write_receipt(_ended(past, name))
        prune(past.home, ALL)
        assert past.store.ids() == []
        with pytest.raises(ConflictError, match="the key 'mine' stands for an earlier delegation, and the record of"):
            enter(state, past.store, keyed.model_copy(update={"id": "dg-20261130t113652417-zzzz"}))
    assert past.store.ids() == []


def _ended(past: PastRecords, name: str) -> Any:
    other = past.add("refuted", ago=OLD)
    receipt = past.store.receipt(other)
    assert receipt is not None
    past.store.write_status(name, Progress(step="done"))
    return receipt.model_copy(update={"id": name})


def test_limits_are_the_settings_unless_some_are_given(tmp_path: Path):
    settings = load_settings(
        {"DELEGATE_HOME": str(tmp_path), "DELEGATE_RECORD_KEEP_DAYS": "90", "DELEGATE_RECORD_BUDGET_GB": "0.5"},
        tmp_path,
    )
    assert policy_of(settings) == RecordPolicy(days=90, count=None, budget_bytes=1 << 29)
    assert policy_of(settings, count=7) == RecordPolicy(count=7)
    assert not policy_of(load_settings({"DELEGATE_HOME": str(tmp_path)}, tmp_path)).has_limits
    with pytest.raises(UsageError, match="--older-than nan: give a number from 0"):
        policy_of(settings, days=float("nan"))


def test_the_keepers_sweep_clears_records_by_its_limits_and_says_so(
    past: PastRecords, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from deployments.upkeep import trees

    old, new = past.add("refuted", ago=OLD), past.add("refuted")
    monkeypatch.setenv("DELEGATE_HOME", str(past.root))
    for limits, left in (({}, [new, old]), ({"days": 30}, [new])):
        monkeypatch.setattr("sys.argv", ["trees", "7", "20", json.dumps(limits)])
        assert trees.main() == 0
        assert past.store.ids() == left
    assert f"removed the record {old}: ended 40.0 days ago" in capsys.readouterr().err
