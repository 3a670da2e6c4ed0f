"""What dsh left for review is kept in the record without the secrets that it was given, and without what is no file."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from front import Front

from delegation.harnesses.polling import kept_result
from delegation.masking import MASK, Mask
from delegation.request import DelegationRequest
from delegation.steps import make_worktree, work_by_harness
from delegation.steps import masked_copy as copies
from delegation.steps.masked_copy import copy_masked, masked_pieces
from delegation.steps.record import work_of, worktree_of
from tests.doubles.harness_jobs import program

SECRET = 'tok-"quoted"-1234567890'
ESCAPED = json.dumps(SECRET)[1:-1]
LAUNCHER = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in --out-dir) out="$2";; esac; shift 2; done
cd "$out" || exit 9
%s
echo '{"status": "done", "rc": 0, "summary": "Did it."}' > "$out/result.json"
"""
Reviews = Callable[..., tuple[DelegationRequest, Path]]


@pytest.fixture
def reviewed(front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reviews:
    """Runs the step with a dsh whose launcher runs these lines in its output folder; the folder that was kept."""

    def working(lines: str, **environ: str) -> tuple[DelegationRequest, Path]:
        models = tmp_path / "models.json"
        models.write_text('["m"]', encoding="utf-8")
        given = {"DELEGATE_DSH_LAUNCHER": str(program(tmp_path, "dsh-herdr.sh", LAUNCHER % lines))}
        given |= {"DELEGATE_DSH_MODELS_FILE": str(models), "DELEGATE_ENV_PASSTHROUGH": "MY_TOKEN", "MY_TOKEN": SECRET}
        front.environ |= given | environ
        for name in ("DELEGATE_ENV_PASSTHROUGH", *environ):
            monkeypatch.setenv(name, front.environ[name])
        request = front.records.request(front.keep(agent="dsh", model="m"))
        assert request.order is not None
        work_by_harness(request, make_worktree(request), request.order)
        result = kept_result(front.records.folder(request.id))
        assert result is not None
        assert result.out_dir is not None
        return request, Path(result.out_dir)

    return working


def holds(folder: Path, *values: str) -> list[str]:
    """What holds one of the values: a file in it, a name, a link."""
    found: list[str] = []
    for path in folder.rglob("*"):
        about = [path.name, os.readlink(path) if path.is_symlink() else ""]
        about += [path.read_bytes().decode("utf-8", "replace")] if path.is_file() and not path.is_symlink() else []
        found += [path.name for each in about if any(value in each for value in values)]
    return found


def test_a_secret_in_what_is_left_for_review_is_in_no_file_no_name_and_no_link_of_the_record(
    reviewed: Reviews, front: Front
):
    lines = """
mkdir -p "deep/$MY_TOKEN" && printf '%s\\n' "$MY_TOKEN" > deep/plain
printf '%s' "$MY_TOKEN" > "deep/$MY_TOKEN/$MY_TOKEN"; ln -s "/tmp/$MY_TOKEN" link
printf '{"key": "tok-\\\\"quoted\\\\"-1234567890"}' > escaped.json
{ head -c 1048570 /dev/zero; printf '%s' "$MY_TOKEN"; head -c 9 /dev/zero; } > big; chmod 4755 big"""
    request, out = reviewed(lines)
    assert out == front.records.folder(request.id) / "out"
    assert (out / "deep" / "plain").read_text(encoding="utf-8") == f"{MASK}\n"
    assert json.loads((out / "escaped.json").read_text(encoding="utf-8")) == {"key": MASK}
    assert (out / "big").read_bytes() == bytes(1_048_570) + MASK.encode() + bytes(9)
    assert (out / "big").stat().st_mode & 0o7777 == 0o755
    assert (out / "result.json").exists()
    assert holds(front.records.folder(request.id), SECRET, ESCAPED) == []


def test_a_place_of_the_users_own_gets_no_secret_either(reviewed: Reviews, tmp_path: Path):
    _, out = reviewed('printf %s "$MY_TOKEN" > plain', DELEGATE_DSH_STATE_DIR=str(tmp_path / "dsh-jobs"))
    assert out.is_relative_to(tmp_path / "dsh-jobs")
    assert (out / "plain").read_text(encoding="utf-8") == MASK


def test_it_is_moved_so_that_a_tree_which_stays_has_no_copy_of_it(reviewed: Reviews):
    request, _ = reviewed('printf %s "$MY_TOKEN" > plain')
    tree = worktree_of(request.id)
    assert tree is not None
    assert not (Path(tree.place) / "harness" / "out").exists()


def test_a_pipe_among_it_costs_only_itself_and_is_told(reviewed: Reviews, front: Front):
    request, out = reviewed("mkfifo pipe; echo diff > change.diff")
    assert sorted(path.name for path in out.iterdir()) == ["change.diff", "result.json"]
    result = kept_result(front.records.folder(request.id))
    assert result is not None
    assert any("a pipe, a socket or a device" in warning for warning in result.warnings)


def test_a_link_is_kept_as_one_and_what_it_leads_to_is_not_read(reviewed: Reviews, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "private").write_text("words of another")
    _, out = reviewed(f"ln -s {tmp_path}/elsewhere linked")
    assert (out / "linked").is_symlink()


def test_a_folder_that_is_a_link_itself_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotADirectoryError):
        copy_masked(tmp_path / "out", tmp_path / "kept", Mask.of([SECRET]))
    assert not (tmp_path / "kept").exists()


def test_two_names_that_differ_only_in_their_secrets_are_both_kept(tmp_path: Path):
    (tmp_path / "out").mkdir()
    for name in ("secret-one", "secret-two"):
        (tmp_path / "out" / name).write_text(name)
    assert copy_masked(tmp_path / "out", tmp_path / "kept", Mask.of(["secret-one", "secret-two"])) == ()
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [MASK, f"{MASK}.2"]


def test_more_than_the_bound_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file may be sparse and cost nothing until it is copied."""
    monkeypatch.setattr(copies, "MOST_BYTES", 1000)
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / "a-sparse").open("wb") as file:
        file.truncate(1001)
    (tmp_path / "out" / "small").write_bytes(b"x" * 999)
    assert copy_masked(tmp_path / "out", tmp_path / "kept", Mask()) == ("more than 1,000 bytes",)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["small"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
def test_a_value_across_pieces_of_any_size_is_replaced_as_in_one(size: int):
    mask: Any = Mask.of(["abcdef", "abcdefgh", "xyzxyz"])
    text = "abcdefghi abcdef xyzxyzxyz abcde xyzxy abcdefabcdefgh"
    data = text.encode()
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    assert b"".join(masked_pieces(pieces, mask)).decode() == mask.text(text)


def test_the_users_own_checkout_is_watched_since_no_walls_of_ours_are_around_dsh(reviewed: Reviews, front: Front):
    request, _ = reviewed(f"echo stray > {front.repo}/stray.txt")
    work = work_of(request.id)
    assert work is not None
    assert [said for said in work.warnings if "stray.txt" in said]
