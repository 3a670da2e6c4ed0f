"""The kept results of base commits: used where nothing changed, never where something did, safe with many writers."""

import json
import threading
from pathlib import Path

import pytest

from delegation.receipt import CommandRun
from delegation.verdict import baselines
from delegation.verdict.baselines import keep, kept
from delegation.verdict.observed import Observed

RUN = CommandRun(
    verdict="passed", exit_code=0, seconds=1.0, tests={"a": "passed"}, output_tail="fine", log_path="/x/log"
)


def test_a_kept_result_comes_back_marked_as_kept(tmp_path: Path):
    keep(tmp_path, "k", Observed(RUN, RUN))
    marked = RUN.model_copy(update={"cached": True, "log_path": None})
    assert kept(tmp_path, "k") == Observed(marked, marked)
    assert kept(tmp_path, "other") is None


def test_a_result_that_did_not_judge_is_not_kept(tmp_path: Path):
    keep(tmp_path, "k", Observed(RUN.model_copy(update={"verdict": "none"})))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["", "{", '{"format": 1}', "swapped", "another key"])
def test_a_damaged_entry_is_not_used(tmp_path: Path, damage: str):
    keep(tmp_path, "k", Observed(RUN))
    file = tmp_path / "k.json"
    entry = json.loads(file.read_text())
    if damage == "swapped":
        entry["first"]["verdict"] = "failed"
        damage = json.dumps(entry)
    elif damage == "another key":
        damage = json.dumps(entry | {"key": "other"})
    file.write_text(damage)
    assert kept(tmp_path, "k") is None


def test_old_entries_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keep(tmp_path, "k", Observed(RUN))
    now = baselines.time.time()
    monkeypatch.setattr(baselines.time, "time", lambda: now + 15 * 86_400)
    assert kept(tmp_path, "k") is None


def test_the_number_of_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(baselines, "_MOST_ENTRIES", 3)
    for number in range(6):
        keep(tmp_path, f"k{number}", Observed(RUN))
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_many_writers_and_readers_never_see_half_an_entry(tmp_path: Path):
    problems: list[object] = []
    keep(tmp_path, "k", Observed(RUN))

    def work() -> None:
        try:
            for _ in range(20):
                keep(tmp_path, "k", Observed(RUN))
                if kept(tmp_path, "k") is None:
                    problems.append("unreadable")
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [path.name for path in tmp_path.iterdir()] == ["k.json"]


@pytest.fixture(scope="module")
def known(shared):
    """A repository whose base is known under one condition."""
    shared.commit({"sub/m.py": "x = 1\n"})
    shared.verify(None, "true")
    assert shared.verify(None, "true").base.cached
    return shared


@pytest.mark.parametrize(
    "change",
    [{"command": "true #"}, {"setup": "true"}, {"network": True}, {"confinement": "off"}, {"workdir": "sub"}],
    ids=lambda change: next(iter(change)),
)
def test_another_condition_is_another_baseline(known, change):
    assert not known.verify(None, **({"command": "true"} | change)).base.cached


def test_another_commit_or_lock_file_is_another_baseline(bench):
    bench.commit({"m.py": "x = 1\n"})
    bench.verify(None, "true")
    (bench.repo / "uv.lock").write_text("changed\n")
    assert not bench.verify(None, "true").base.cached
    assert bench.verify(None, "true").base.cached
    bench.commit({"m.py": "x = 2\n"})
    assert not bench.verify(None, "true").base.cached


def test_a_kept_base_still_has_a_log(bench):
    bench.commit({"m.py": "x = 1\n"})
    for _ in range(2):
        answer = bench.verify(None, "echo said")
    assert "said" in Path(answer.base.log_path).read_text()
