"""Modes, links, odd names, last bytes and line endings come through a patch as they were."""

import os
import shutil
from pathlib import Path

import pytest


def test_empty_files_and_modes_survive_the_round_trip(repo, trees, round_trip):
    repo.write("run.sh", "#!/bin/sh\n")
    repo.write("tool", b"\0\1\2")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "pkg/__init__.py").touch()
    (root / "run.sh").chmod(0o755)
    (root / "tool").chmod(0o755)
    patch = round_trip(worktree)
    assert patch.names == ("pkg/__init__.py", "run.sh", "tool")


def test_modes_are_in_the_patch_and_a_repository_that_ignores_them_is_named(repo, trees):
    repo.write("run.sh", "#!/bin/sh\n")
    repo.commit()
    repo.git("config", "core.fileMode", "false")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "run.sh").chmod(0o755)
    patch = trees.patch(worktree)
    assert patch.names == ("run.sh",)
    assert any("core.fileMode" in warning and "run.sh" in warning for warning in patch.warnings)


def test_links_are_stored_as_links_and_never_followed(repo, trees, round_trip, tmp_path):
    secret = tmp_path / "outside.txt"
    secret.write_text("TOP-SECRET\n")
    repo.write("folder/inside", "i\n")
    os.symlink("a.py", repo.path / "old")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    os.symlink(secret, root / "link")
    os.symlink("./pkg//b.py", root / "untidy")
    (root / "a.py").unlink()
    os.symlink("pkg/b.py", root / "a.py")
    (root / "old").unlink()
    os.symlink("pkg", root / "old")
    shutil.rmtree(root / "folder")
    os.symlink("pkg", root / "folder")
    patch = round_trip(worktree)
    assert b"TOP-SECRET" not in Path(patch.path).read_bytes()
    assert any("lead out" in warning and "link" in warning for warning in patch.warnings)


def test_a_folder_becomes_a_file_and_a_file_a_folder(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    shutil.rmtree(root / "pkg")
    (root / "pkg").write_text("now a file\n")
    (root / "a.py").unlink()
    (root / "a.py").mkdir()
    (root / "a.py/inside").write_text("x\n")
    round_trip(worktree)


ODD = [
    *("docs/日本語.md", "a b/c.py", "x b/y", 'q"uote', "tab\tname", "new\nline", "p -> q", "-dash", ":colon", "*star"),
    *(" lead", "trail ", "é.txt", "back\\slash", "'", "#hash", "!bang", "git~1", "a\x7fb", "\x01", "e\u0301"),
]


def test_odd_names_are_listed_truly_and_survive_the_round_trip(repo, trees, round_trip):
    repo.write("docs/ü.md", "before\n")
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    for name in ODD:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / "docs/ü.md").write_text("after\n")
    assert set(round_trip(worktree).names) == {*ODD, "docs/ü.md"}


def test_a_name_that_is_not_utf8_survives_the_round_trip_and_can_be_shown(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    with open(os.fsencode(worktree.root) + b"/caf\xe9", "wb") as stream:
        stream.write(b"x")
    patch = round_trip(worktree)
    assert patch.names == ("caf\\xe9",)
    assert patch.model_dump_json()


@pytest.mark.parametrize("content", [b"one\ntwo\n\n\n", b"one\ntwo", b"one\n \n", b"one\r\n\x0c\n", b"one\n\xff\xfe\n"])
def test_the_last_bytes_of_the_patch_are_never_stripped(content, repo, trees, round_trip):
    repo.write("s.txt", content)
    repo.commit()
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "s.txt").write_bytes(content.replace(b"one", b"ONE"))
    round_trip(worktree)


@pytest.mark.parametrize(
    ("attributes", "autocrlf"),
    [("*.txt text", "input"), ("* text=auto", "true"), ("*.txt text eol=crlf", "false"), ("", "true")],
)
def test_one_line_of_a_crlf_file_is_a_change_of_one_line(attributes, autocrlf, repo, trees, round_trip, user_config):
    for n in range(3):
        repo.write(f"win{n}.txt", b"a\r\nb\r\nc\r\n")
    repo.commit()
    repo.write(".gitattributes", f"{attributes}\n")
    repo.git("add", ".gitattributes")
    repo.git("commit", "-qm", "attributes")
    user_config("core.autocrlf", autocrlf)
    user_config("apply.whitespace", "fix")
    worktree = trees.create(repo.path)
    for n in range(3):
        os.utime(Path(worktree.root) / f"win{n}.txt", (1, 1))
    path = Path(worktree.root) / "win1.txt"
    assert path.read_bytes() == b"a\r\nb\r\nc\r\n"
    path.write_bytes(b"a\r\nB\r\nc\r\n")
    patch = round_trip(worktree)
    assert (patch.names, patch.insertions, patch.deletions) == (("win1.txt",), 1, 1)


def test_files_that_a_checkout_converts_come_back_with_the_agents_bytes(repo, trees, round_trip):
    repo.write(".gitattributes", "*.bat eol=crlf\n*.utf16 working-tree-encoding=UTF-16LE-BOM\n*.id ident\n")
    repo.write("x.bat", b"a\r\nb\r\n")
    repo.write("x.utf16", "aä\nb\n".encode("utf-16"))
    repo.write("x.id", "$Id$\ntext\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "converted")
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    assert (root / "x.bat").read_bytes() == b"a\r\nb\r\n"
    (root / "x.bat").write_bytes(b"a\r\nB\r\n")
    (root / "x.utf16").write_bytes("aä\nB\n".encode("utf-16"))
    (root / "x.id").write_bytes((root / "x.id").read_bytes().replace(b"text", b"TEXT"))
    (root / "new.bat").write_bytes(b"n\r\n")
    patch = round_trip(worktree, but=("x.id",))  # the id in it is that of the file itself
    assert (patch.insertions, patch.deletions) == (4, 3)


def test_the_users_diff_settings_change_nothing(repo, trees, user_config, tmp_path):
    def patch_bytes() -> bytes:
        worktree = trees.create(repo.path)
        (Path(worktree.root) / "pkg/b.py").write_text("edited\n")
        (Path(worktree.root) / "moved.py").write_bytes((Path(worktree.root) / "a.py").read_bytes())
        (Path(worktree.root) / "a.py").unlink()
        return Path(trees.patch(worktree).path).read_bytes()

    plain = patch_bytes()
    ran = tmp_path / "ran"
    program = tmp_path / "picture"
    program.write_text(f"#!/bin/sh\ntouch {ran}\necho PICTURE\n")
    program.chmod(0o755)
    for name, value in {
        "diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.external": str(program), "diff.context": "0",
        "diff.renames": "copies", "diff.algorithm": "patience", "core.pager": str(program), "color.ui": "always",
        "diff.x.command": str(program), "diff.x.textconv": str(program), "diff.suppressBlankEmpty": "true",
        "diff.orderFile": str(program), "diff.interHunkContext": "9", "core.quotePath": "false",
    }.items():  # fmt: skip
        user_config(name, value)
        repo.git("config", name, value)
    (repo.path / ".git/info/attributes").write_text("*.py diff=x\n")
    assert patch_bytes() == plain
    assert not ran.exists()
