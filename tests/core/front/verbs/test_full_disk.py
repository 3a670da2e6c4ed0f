"""A disk without room is said with the path that could not be written, and nothing half is left."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from front import Front, Ran

from delegation.errors import StackError
from delegation.files import publish
from delegation.home import Home
from delegation.secrets import keep

Call = Callable[..., Ran]
REMEDY = "free some, or set DELEGATE_HOME to a folder of another disk"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """No file whose path holds the given word can be written any more."""
    usual = os.fsync

    def fill(word: str, code: int = errno.ENOSPC) -> None:
        def fsync(descriptor: int) -> None:
            if word in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise OSError(code, os.strerror(code))
            usual(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)

    return fill


@pytest.mark.parametrize("file", ["/secrets/", "request.json", "entry.json", "status.json"])
def test_run_on_a_full_disk_says_what_could_not_be_written(file: str, full, stacked: Front, call: Call):
    full(file)
    ran = call("run", "Fix it", "--no-wait")
    place = stacked.home / "secrets" if file == "/secrets/" else stacked.home / "delegations" / "dg-"
    assert (ran.code, ran.stdout) == (2, "")
    assert f"delegate: no space left to write '{place}" in ran.stderr
    assert ran.stderr.strip().endswith(REMEDY)
    assert stacked.records.ids() == []
    assert stacked.prefect.runs == {}


def test_a_quota_that_is_spent_is_a_full_disk(full, tmp_path: Path):
    full("/secrets/", errno.EDQUOT)
    with pytest.raises(StackError, match=r"no space left to write '.*/secrets'"):
        keep(Home(tmp_path / "home", tmp_path / "c"), "value")


def test_another_reason_is_told_as_it_is(full, tmp_path: Path):
    full("/secrets/", errno.EROFS)
    with pytest.raises(StackError, match=r"cannot write '.*/secrets' \(Read-only file system\): set DELEGATE_HOME"):
        keep(Home(tmp_path / "home", tmp_path / "c"), "value")


def test_apply_on_a_full_disk_says_so_and_changes_nothing(full, front: Front, call: Call):
    patch = b"diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n"
    front.end(front.keep(), "verified", patch=patch)
    full("undo.diff")
    ran = call("apply", "1")
    assert (ran.code, (front.repo / "n").exists()) == (2, False)
    assert "delegate: no space left to write '" in ran.stderr
    assert "undo.diff'" in ran.stderr


def test_the_file_is_named_and_not_the_one_aside(full, tmp_path: Path):
    full("a.json")
    with pytest.raises(OSError, match=r"No space left on device: '.*/a\.json'$"):
        publish(tmp_path / "a.json", "x")
    with pytest.raises(FileNotFoundError, match=r"/no/b\.json'$"):
        publish(tmp_path / "no" / "b.json", "x")
    assert list(tmp_path.iterdir()) == []
