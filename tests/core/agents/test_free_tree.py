"""File tools that may leave the worktree, for whoever asked for that; our own state stays out of reach."""

from pathlib import Path

import pytest

from delegation.agents.tools.toolbox import Toolbox
from delegation.chat.messages import ToolUse


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for folder in ("state/tree/sub", "elsewhere", "state/secrets"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere" / "there.txt").write_text("out here\n")
    (tmp_path / "state" / "secrets" / "key").write_text("sk-1\n")
    (tmp_path / "state" / "tree" / "inside.txt").write_text("in here\n")
    return tmp_path


def toolbox(places: Path, *, may_leave: bool) -> Toolbox:
    return Toolbox(
        root=places / "state" / "tree", shell=None, workdir="sub", may_leave=may_leave, hidden=(places / "state",)
    )


def answer(box: Toolbox, name: str, **arguments: str) -> str:
    return box.call(ToolUse("1", name, dict(arguments)), 10).text


@pytest.mark.parametrize("path", ["{}/elsewhere/there.txt", "../../../elsewhere/there.txt"])
def test_a_file_elsewhere_is_read_only_where_that_was_asked_for(places: Path, path: str):
    path = path.format(places)
    assert "out here" in answer(toolbox(places, may_leave=True), "read_file", path=path)
    assert "refused" in answer(toolbox(places, may_leave=False), "read_file", path=path)


def test_files_elsewhere_are_written_changed_and_listed(places: Path):
    box, folder = toolbox(places, may_leave=True), places / "elsewhere"
    assert not answer(box, "write_file", path=f"{folder}/new/a.txt", content="a\n").startswith("Error")
    assert not answer(box, "edit_file", path=f"{folder}/there.txt", old_text="out", new_text="far").startswith("Error")
    assert (folder / "new" / "a.txt").read_text() == "a\n"
    assert (folder / "there.txt").read_text() == "far here\n"
    assert "there.txt" in answer(box, "list_files", path=str(folder))


def test_paths_inside_are_shown_as_ever(places: Path):
    box = toolbox(places, may_leave=True)
    assert "in here" in answer(box, "read_file", path="../inside.txt")
    assert "../inside.txt" in answer(box, "write_file", path="../inside.txt", content="x\n")


def test_our_own_state_and_gits_stay_out_of_reach(places: Path):
    (places / "elsewhere" / "link").symlink_to(places / "state" / "secrets" / "key")
    (places / "elsewhere" / ".git").mkdir()
    box = toolbox(places, may_leave=True)
    for path in (f"{places}/state/secrets/key", "../../secrets/key", f"{places}/elsewhere/link"):
        assert "belongs to the program that runs you" in answer(box, "read_file", path=path)
    assert "belongs to git" in answer(box, "write_file", path=f"{places}/elsewhere/.git/config", content="x")
