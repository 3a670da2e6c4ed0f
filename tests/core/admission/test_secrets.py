"""Key values lie in private files named by their hash, and a request carries only the name."""

import os
import stat
import threading
from pathlib import Path

import pytest

from delegation.errors import StackError, WorkFailed
from delegation.home import Home
from delegation.secrets import forget, forget_unused, keep, value_of


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(root=tmp_path / "h", config_file=tmp_path / "c")


def test_a_kept_value_comes_back_by_its_reference_and_is_private(home: Home):
    old = os.umask(0)
    try:
        reference = keep(home, "sekrit\n")
    finally:
        os.umask(old)
    assert value_of(home, reference) == "sekrit\n"
    assert "sekrit" not in reference
    (path,) = home.secrets.iterdir()
    assert reference == f"secret:{path.name}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.secrets.stat().st_mode) == 0o700


def test_the_same_value_is_kept_once_and_another_apart(home: Home):
    first = keep(home, "a")
    path = home.secrets / first.removeprefix("secret:")
    inode = path.stat().st_ino
    os.utime(path, (0, 0))
    assert keep(home, "a") == first
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1e9, "kept anew: it is as young as the request that is about to name it"
    assert keep(home, "b") != first
    assert len(list(home.secrets.iterdir())) == 2


def test_a_damaged_file_is_replaced_by_the_value(home: Home):
    reference = keep(home, "a")
    (home.secrets / reference.removeprefix("secret:")).write_text("")
    assert value_of(home, keep(home, "a")) == "a"


def test_many_writers_at_once_leave_one_whole_file(home: Home):
    threads = [threading.Thread(target=keep, args=(home, "x" * 5000)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_text() for path in home.secrets.iterdir()] == ["x" * 5000]


@pytest.mark.parametrize("reference", ["secret:" + "0" * 32, "secret:../../etc/passwd", "secret:", "literal", ""])
def test_a_value_that_is_gone_or_misnamed_fails_as_auth_and_says_submit_again(home: Home, reference: str):
    with pytest.raises(WorkFailed, match="submit again") as error:
        value_of(home, reference)
    assert error.value.kind == "auth"


def test_a_reference_cannot_name_a_file_outside_the_secrets(home: Home):
    home.make(home.secrets)
    for folder in (home.root, home.secrets):
        (folder / "outside").write_text("outside")
    for reference in ("secret:../outside", f"secret:{home.root}/outside", "secret:outside"):
        with pytest.raises(WorkFailed):
            value_of(home, reference)


def test_a_variable_is_read_from_the_given_environment_only(home: Home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MINE", "process")
    assert value_of(home, "env:MINE", {"MINE": "given"}) == "given"
    for environ in (None, {}, {"MINE": ""}):
        with pytest.raises(WorkFailed, match="MINE is not set where this runs"):
            value_of(home, "env:MINE", environ)


def test_a_link_in_place_of_a_secret_is_neither_read_nor_written_through(home: Home, tmp_path: Path):
    reference = keep(home, "a")
    path = home.secrets / reference.removeprefix("secret:")
    (tmp_path / "outside").write_text("outside")
    path.unlink()
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(WorkFailed):
        value_of(home, reference)
    keep(home, "a")
    assert (tmp_path / "outside").read_text() == "outside"
    assert value_of(home, reference) == "a"


def grow_old(home: Home) -> None:
    for path in home.secrets.iterdir():
        os.utime(path, (0, 0), follow_symlinks=False)


def test_what_no_request_refers_to_is_forgotten_when_it_is_old_and_foreign_files_stay(home: Home):
    kept, dropped = keep(home, "a"), keep(home, "b")
    (home.secrets / "README").write_text("mine")
    assert forget_unused(home, [kept, "env:X"], unused_for_seconds=60) == 0
    grow_old(home)
    assert forget_unused(home, [kept, "env:X"], unused_for_seconds=60) == 1
    assert value_of(home, kept) == "a"
    with pytest.raises(WorkFailed, match="submit again"):
        value_of(home, dropped)
    assert (home.secrets / "README").exists()


def test_a_value_that_is_kept_again_while_it_is_being_forgotten_stays(home: Home, monkeypatch: pytest.MonkeyPatch):
    reference = keep(home, "a")
    grow_old(home)
    rename = Path.rename

    def kept_again_first(self: Path, target: Path) -> Path:
        if target.suffix == ".going":
            keep(home, "a")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", kept_again_first)
    assert forget_unused(home, [], unused_for_seconds=60) == 0
    assert value_of(home, reference) == "a"


def test_half_written_and_half_removed_files_of_a_crash_go_too(home: Home):
    reference = keep(home, "a")
    name = reference.removeprefix("secret:")
    for left in (f".{name}.ab12cd", f".own-{name}.going"):
        (home.secrets / left).write_text("a")
    forget_unused(home, [reference], unused_for_seconds=60)
    assert len(list(home.secrets.iterdir())) == 3
    grow_old(home)
    forget_unused(home, [reference], unused_for_seconds=60)
    assert [path.name for path in home.secrets.iterdir()] == [name]


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="cannot write the state directory"):
        keep(Home(root=tmp_path / "file" / "h", config_file=tmp_path / "c"), "a")


def test_a_value_of_one_delegation_goes_alone_and_shared_ones_stay(home: Home):
    shared, own, other = keep(home, "v"), keep(home, "v", owner="dg-1"), keep(home, "v", owner="dg-2")
    assert len({shared, own, other}) == 3
    assert keep(home, "v", owner="dg-1") == own
    assert (forget(home, own), forget(home, own), forget(home, shared), forget(home, None)) == (
        True,
        False,
        False,
        False,
    )
    assert (value_of(home, shared), value_of(home, other)) == ("v", "v")
    with pytest.raises(WorkFailed, match="submit again"):
        value_of(home, own)
