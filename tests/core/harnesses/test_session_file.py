"""A session of Claude Code outlives the private home in which it was kept."""

from pathlib import Path

from delegation.harnesses.session_file import keep_session, restore_session
from tests.doubles.harness_jobs import job

SESSION = "5e0c1b1e-0000-4000-8000-000000000001"


def projects(place: Path) -> Path:
    return place / "run" / "home" / ".claude" / "projects"


def test_a_session_is_kept_privately_and_put_where_the_other_folder_looks_for_it(tmp_path: Path):
    (record := tmp_path / "record").mkdir()
    first = job(tmp_path, "claude")
    (projects(tmp_path) / "-some-folder").mkdir(parents=True)
    (projects(tmp_path) / "-some-folder" / f"{SESSION}.jsonl").write_text("lines")
    keep_session(first, SESSION, record)
    assert (record / "session.jsonl").stat().st_mode & 0o777 == 0o600
    (other := tmp_path / "other.place_2").mkdir()
    restore_session(job(other, "claude", resume=SESSION), record)
    folder = str(other / "tree").replace("/", "-").replace(".", "-").replace("_", "-")
    assert (projects(other) / folder / f"{SESSION}.jsonl").read_text() == "lines"


def test_a_session_that_is_missing_or_a_link_is_not_kept_and_nothing_is_restored(tmp_path: Path):
    (record := tmp_path / "record").mkdir()
    first = job(tmp_path, "claude", resume=SESSION)
    keep_session(first, SESSION, record)
    (projects(tmp_path) / "-some-folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("hidden words")
    (projects(tmp_path) / "-some-folder" / f"{SESSION}.jsonl").symlink_to(tmp_path / "secret")
    keep_session(first, SESSION, record)
    assert list(record.iterdir()) == []
    restore_session(first, record)
    assert [path.name for path in projects(tmp_path).iterdir()] == ["-some-folder"]
