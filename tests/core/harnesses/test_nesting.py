"""Our walls around another sandbox: tried, and left away where the machine does not allow it."""

import shutil
from pathlib import Path

import pytest

from delegation.confinement import Walls
from delegation.harnesses import nesting
from delegation.harnesses.nesting import confiner_around
from delegation.process import run, shell
from tests.doubles.harness_jobs import program

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

INNER = "bwrap --unshare-user --unshare-pid --unshare-net --ro-bind / / --dev /dev sh -c 'id -u; cat ../secret'"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_SEEN", {})


def walls(place: Path) -> Walls:
    (place / "tree").mkdir()
    (place / "secret").write_text("hidden words")
    return Walls(writable=(place / "tree",), readable=())


def test_a_second_sandbox_works_inside_and_what_is_hidden_stays_hidden(tmp_path: Path):
    around, cwd = walls(tmp_path), tmp_path / "tree"
    confiner = confiner_around("auto", None, walls=around, cwd=cwd)
    assert confiner is not None
    env = {"PATH": "/usr/bin:/bin"}
    done = run(shell(INNER), cwd=cwd, env=env, timeout_seconds=20, confiner=confiner, walls=around)
    assert int(done.stdout.text.split()[0]) > 0, done.stderr.text
    assert "hidden words" not in done.stdout.text


def test_where_a_second_sandbox_fails_the_programs_own_has_to_do(tmp_path: Path):
    broken = program(tmp_path, "bwrap", "#!/bin/sh\nexit 1\n")
    around = walls(tmp_path)
    shown = Walls(writable=around.writable, readable=(broken,))
    assert confiner_around("auto", broken, walls=shown, cwd=tmp_path / "tree") is None


def test_switched_off_it_is_off(tmp_path: Path):
    assert confiner_around("off", None, walls=walls(tmp_path), cwd=tmp_path / "tree") is None
