"""A session of Claude Code outlives the private home in which it was kept."""

import os
from pathlib import Path

import pytest

from delegation.harnesses.session_file import keep_session, restore_session
from delegation.masking import Mask
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


@pytest.mark.parametrize("name", ["../outside", "*", "", "..", "a/b"])
def test_a_name_that_could_lead_to_another_file_is_no_session(tmp_path: Path, name: str):
    (record := tmp_path / "record").mkdir()
    job_with_it = job(tmp_path, "claude", resume=name)
    (projects(tmp_path) / "-some-folder").mkdir(parents=True)
    for place in ("outside.jsonl", f"-some-folder/{SESSION}.jsonl", "-some-folder/.jsonl", "-some-folder/...jsonl"):
        (projects(tmp_path) / place).write_text("words of another")
    keep_session(job_with_it, name, record)
    assert list(record.iterdir()) == []
    (record / "session.jsonl").write_text("lines")
    before = sorted(tmp_path.rglob("*"))
    restore_session(job_with_it, record)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_kept_session_has_no_secret(tmp_path: Path):
    (record := tmp_path / "record").mkdir()
    (projects(tmp_path) / "-some-folder").mkdir(parents=True)
    (projects(tmp_path) / "-some-folder" / f"{SESSION}.jsonl").write_text('{"output": "sk-of-this-test"}')
    keep_session(job(tmp_path, "claude"), SESSION, record, Mask.of(["sk-of-this-test"]))
    assert (record / "session.jsonl").read_text() == '{"output": "[secret removed]"}'


def test_a_session_behind_a_linked_folder_or_a_pipe_is_not_kept(tmp_path: Path):
    (record := tmp_path / "record").mkdir()
    (other := tmp_path / "other").mkdir()
    (other / f"{SESSION}.jsonl").write_text("words of another")
    projects(tmp_path).mkdir(parents=True)
    (projects(tmp_path) / "-linked").symlink_to(other)
    keep_session(job(tmp_path, "claude"), SESSION, record)
    (projects(tmp_path) / "-linked").unlink()
    (projects(tmp_path) / "-some-folder").mkdir()
    os.mkfifo(projects(tmp_path) / "-some-folder" / f"{SESSION}.jsonl")
    keep_session(job(tmp_path, "claude"), SESSION, record)
    assert list(record.iterdir()) == []
