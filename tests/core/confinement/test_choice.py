"""Which walls there are is found out by trying, and said in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from delegation.confinement import find_confiner, probe
from delegation.confinement.choice import _probe_bubblewrap
from delegation.errors import WorkFailed


@pytest.fixture(autouse=True)
def fresh_probe() -> Iterator[None]:
    probe.cache_clear()
    yield
    probe.cache_clear()


def stand_in(folder: Path, body: str) -> str:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'bubblewrap 9.9' && exit\n{body}\n")
    program.chmod(0o755)
    return str(program)


def test_off_means_none():
    assert find_confiner("off") is None


def test_a_working_one_is_named_with_its_version(tmp_path):
    found = _probe_bubblewrap(stand_in(tmp_path, "exit 0"))
    assert found.confiner is not None
    assert found.confiner.name == "bubblewrap 9.9"
    assert found.reason is None


def test_the_probe_runs_once_per_process(tmp_path, monkeypatch):
    stand_in(tmp_path, f"echo >> {tmp_path}/runs; exit 0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_confiner("auto") is find_confiner("required")
    assert (tmp_path / "runs").read_text() == "\n"


def test_a_missing_program_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_confiner("auto") is None
    assert "install the package 'bubblewrap'" in (probe().reason or "")


def test_required_without_a_working_one_is_refused_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkFailed, match="confinement is required, but bubblewrap is not installed") as caught:
        find_confiner("required")
    assert caught.value.kind == "confinement"


def test_one_that_does_not_work_here_is_not_used_and_says_why(tmp_path):
    program = stand_in(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    found = _probe_bubblewrap(program)
    assert found.confiner is None
    assert "No permissions to create new namespace" in (found.reason or "")
    assert "user namespaces" in (found.reason or "").lower()


def test_one_that_cannot_be_started_is_not_used(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("no program")
    assert _probe_bubblewrap(str(program)).confiner is None
