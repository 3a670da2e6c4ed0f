"""The patch holds everything the agent changed, and gives exactly that on the base."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.checkout import difference
from delegation.checkout.patch import apply_in
from delegation.checkout.worktree import Worktree, fresh_checkout, snapshot
from delegation.errors import WorkFailed

Files = Callable[[Path], dict[str, tuple[str, bytes]]]


def agent_git(worktree: Worktree, *args: str, check: bool = True) -> str:
    from delegation.checkout.worktree import agent_git_environment

    env = {"PATH": os.environ["PATH"], **agent_git_environment(worktree)}
    done = subprocess.run(["git", *args], cwd=worktree.root, env=env, check=check, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def round_trip(trees, files: Files, tmp_path: Path):
    """Collects, applies to a fresh checkout of the base, and compares every byte."""

    def check(worktree: Worktree, but: tuple[str, ...] = ()):
        patch = trees.patch(worktree)
        with fresh_checkout(Path(worktree.repo), patch.base_commit, tmp_path / "fresh") as checkout:
            apply_in(checkout, Path(patch.path))
            given = {name: file for name, file in files(checkout).items() if name not in but}
        wanted = {name: file for name, file in files(Path(worktree.root)).items() if name not in but}
        assert given == wanted
        return patch

    return check


def test_untracked_deleted_and_edited_files_are_all_in_the_patch(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("edited\n")
    (root / "pkg/b.py").unlink()
    (root / "pkg/new.py").write_text("new\n")
    patch = round_trip(worktree)
    assert patch.names == ("a.py", "pkg/b.py", "pkg/new.py")
    assert (patch.files, patch.insertions, patch.deletions) == (3, 2, 24)


def test_edited_staged_committed_and_mixed_work_give_the_same_patch(repo, trees):
    hashes = set()
    for kind in ("edit", "stage", "commit", "mixed", "detached history", "rewritten"):
        worktree = trees.create(repo.path)
        root = Path(worktree.root)
        (root / "a.py").write_text("edited\n")
        if kind == "stage":
            agent_git(worktree, "add", "-A")
        if kind in ("commit", "mixed", "detached history"):
            agent_git(worktree, "commit", "-qam", "work")
        if kind == "rewritten":
            agent_git(worktree, "checkout", "-q", "--orphan", "other")
            agent_git(worktree, "commit", "-qam", "history is gone")
        if kind == "detached history":
            agent_git(worktree, "switch", "-qc", "branch")
        (root / "n.py").write_text("n\n")
        hashes.add(trees.patch(worktree).sha256)
    assert len(hashes) == 1


def test_collecting_twice_gives_the_same_bytes_and_leaves_the_agents_index_alone(repo, trees):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "pkg/b.py").unlink()
    (Path(worktree.root) / "new.py").write_text("n\n")
    before = agent_git(worktree, "status", "--porcelain")
    first, second = trees.patch(worktree), trees.patch(worktree)
    assert first == second
    assert agent_git(worktree, "status", "--porcelain") == before == " D pkg/b.py\n?? new.py\n"


def test_nothing_changed_gives_no_patch_also_when_only_dates_changed(repo, trees):
    worktree = trees.create(repo.path)
    os.utime(Path(worktree.root) / "a.py", (1, 1))
    assert trees.collect(worktree) is None
    assert list(trees.out.iterdir()) == []
    assert repo.git("branch", "--list", "delegate/*") == ""


def test_an_edit_of_the_same_size_within_the_same_second_is_seen(repo, trees):
    for _ in range(5):
        worktree = trees.create(repo.path)
        path = Path(worktree.root) / "a.py"
        path.write_bytes(path.read_bytes().replace(b"line 0", b"LINE 0"))
        assert trees.patch(worktree).names == ("a.py",)


def test_binary_files_survive_the_round_trip(repo, trees, round_trip):
    repo.write("t.bin", bytes(range(256)) * 4)
    repo.write("d.bin", b"\0" * 100)
    repo.commit()
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "logo.png").write_bytes(bytes(reversed(range(256))))
    (root / "t.bin").write_bytes(bytes(range(256)) * 4 + b"\0x")
    (root / "d.bin").unlink()
    assert round_trip(worktree).files == 3


def test_a_patch_that_would_not_give_the_agents_tree_is_a_failure_and_no_file(repo, trees, monkeypatch):
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    (Path(worktree.root) / "b.py").write_text("new\n")
    monkeypatch.setattr(difference, "_DIFF", (*difference._DIFF, "--diff-filter=M"))
    with pytest.raises(WorkFailed, match="the patch gives the tree"):
        trees.collect(worktree)
    assert list(trees.out.iterdir()) == []
    assert Path(worktree.root).is_dir()


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


def test_a_repository_the_agent_made_is_in_the_patch_as_files(repo, trees, round_trip):
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    worktree = trees.create(repo.path)
    web = Path(worktree.root) / "web"
    web.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=web, check=True)
    (web / "index.html").write_text("page\n")
    (web / "deep").mkdir()
    (web / "deep/x").write_text("x\n")
    (web / "inner").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=web / "inner", check=True)
    (web / "inner/y").write_text("y\n")
    subprocess.run(["git", "add", "-A"], cwd=web / "inner", check=True)
    subprocess.run(["git", "commit", "-qm", "inner"], cwd=web / "inner", check=True)
    subprocess.run(["git", "add", "-A"], cwd=web, check=True, capture_output=True)
    subprocess.run(["git", "commit", "-qm", "scaffold"], cwd=web, check=True)
    (web / "noise.log").write_text("ignored\n")
    patch = round_trip(worktree, but=("web/noise.log",))
    assert patch.names == ("web/deep/x", "web/index.html", "web/inner/y")
    assert b"160000" not in Path(patch.path).read_bytes()
    assert any("web/" in warning for warning in patch.warnings)


def test_a_tracked_folder_that_the_agent_made_a_repository_of_keeps_its_files(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    pkg = Path(worktree.root) / "pkg"
    subprocess.run(["git", "init", "-q"], cwd=pkg, check=True)
    (pkg / "c.py").write_text("c\n")
    subprocess.run(["git", "add", "-A"], cwd=pkg, check=True)
    subprocess.run(["git", "commit", "-qm", "own"], cwd=pkg, check=True)
    (pkg / "b.py").write_text("edited\n")
    assert round_trip(worktree).names == ("pkg/b.py", "pkg/c.py")


@pytest.mark.parametrize("damage", ["no .git", "git directory gone", "other repository", "garbage", "hostile settings"])
def test_a_broken_git_of_the_agents_costs_nothing(damage, repo, trees, make_repo, tmp_path):
    victim = make_repo("parent")
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "a.py").write_text("edited\n")
    assert worktree.git_dir
    pwned = tmp_path / "pwned"
    match damage:
        case "no .git":
            (root / ".git").unlink()
        case "git directory gone":
            shutil.rmtree(worktree.git_dir)
        case "other repository":
            (root / ".git").write_text(f"gitdir: {victim.path}/.git\n")
        case "garbage":
            (Path(worktree.git_dir) / "config").write_bytes(b"\0[[[")
            (Path(worktree.git_dir) / "HEAD").write_bytes(b"nonsense")
            (Path(worktree.git_dir) / "index").write_bytes(b"x")
        case _:
            agent_git(worktree, "config", "core.fsmonitor", f"touch {pwned};false")
            agent_git(worktree, "config", "diff.external", f"touch {pwned};false")
            agent_git(worktree, "config", "filter.x.clean", f"touch {pwned}; cat")
            (root / ".gitattributes").write_text("*.py filter=x diff=x\n")
    before = victim.footprint(), repo.footprint()
    patch = trees.patch(worktree)
    assert "a.py" in patch.names
    assert victim.footprint() == before[0]
    assert {k: v for k, v in repo.footprint().items() if k in before[1]} == before[1]
    assert not pwned.exists()


def test_a_tree_that_is_gone_is_a_failure_and_not_an_empty_patch(repo, trees):
    worktree = trees.create(repo.path)
    shutil.rmtree(worktree.root)
    with pytest.raises(WorkFailed, match="is gone") as caught:
        trees.collect(worktree)
    assert caught.value.kind == "checkout"


def test_a_tree_replaced_by_a_link_is_a_failure(repo, trees, make_repo):
    worktree = trees.create(repo.path)
    shutil.rmtree(worktree.root)
    os.symlink(make_repo("other").path, worktree.root)
    with pytest.raises(WorkFailed, match="is gone"):
        trees.collect(worktree)


def test_what_setup_left_is_not_the_agents(repo, trees, round_trip):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "generated.txt").write_text("by setup\n")
    (root / "a.py").write_bytes((root / "a.py").read_bytes() + b"setup was here\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    assert trees.collect(worktree) is None
    (root / "pkg/b.py").write_text("edited\n")
    assert trees.patch(worktree).names == ("pkg/b.py",)


def test_a_file_that_setup_and_agent_changed_is_named(repo, trees):
    worktree = trees.create(repo.path)
    path = Path(worktree.root) / "a.py"
    path.write_bytes(path.read_bytes() + b"setup\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    path.write_bytes(path.read_bytes() + b"agent\n")
    patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("setup changed" in warning and "a.py" in warning for warning in patch.warnings)


def test_ignored_files_the_agent_made_are_named(repo, trees, user_config, tmp_path):
    repo.write(".gitignore", "build/\nold/\n__pycache__/\n")
    repo.commit()
    (tmp_path / "global").write_text("*.log\n")
    user_config("core.excludesFile", str(tmp_path / "global"))
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    (root / "old").mkdir()
    (root / "old/setup.o").write_text("by setup\n")
    worktree = worktree.model_copy(update={"snapshot_tree": snapshot(worktree)})
    (root / "build").mkdir()
    (root / "build/report.txt").write_text("r\n")
    (root / "old/new.o").write_text("n\n")
    (root / "sample.log").write_text("l\n")
    (root / "__pycache__").mkdir()
    (root / "__pycache__/a.pyc").write_text("l\n")
    patch = trees.patch(worktree)
    assert patch.names == ("sample.log",)  # the user's own ignore rules have no say in the repository's content
    assert patch.ignored_outputs == ("build/report.txt", "old/new.o")


def test_pipes_and_sockets_are_named_and_left_out(repo, trees, monkeypatch):
    worktree = trees.create(repo.path)
    root = Path(worktree.root)
    monkeypatch.chdir(root)
    os.mkfifo(root / "pipe")
    (root / "a.py").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        os.mkfifo(root / "a.py")
        patch = trees.patch(worktree)
    assert patch.names == ("a.py",)
    assert any("pipe" in warning and "a.py" in warning for warning in patch.warnings)


def test_a_patch_that_deletes_most_files_is_pointed_out(repo, trees):
    for n in range(40):
        repo.write(f"many/{n}")
    repo.commit()
    worktree = trees.create(repo.path)
    shutil.rmtree(Path(worktree.root) / "many")
    assert any("deletes 40 files" in warning for warning in trees.patch(worktree).warnings)


def test_branch_and_ref_hold_the_agents_tree_as_one_commit_by_delegate(repo, trees, user_config):
    user_config("commit.gpgSign", "true")
    user_config("gpg.program", "false")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch == f"delegate/{worktree.delegation_id}"
    shown = repo.git("log", "-1", "--format=%an <%ae>%n%T%n%P%n%s", patch.branch).splitlines()
    assert shown == ["delegate <delegate@localhost>", patch.tree, patch.base_commit, "What was asked for"]
    assert patch.snapshot_ref
    assert repo.git("rev-parse", patch.snapshot_ref) == repo.git("rev-parse", patch.branch)
    repo.git("fsck", "--strict")
    repo.git("gc", "--prune=now", "-q")
    assert repo.git("show", f"{patch.branch}:a.py") == "edited"


def test_a_branch_of_that_name_that_the_user_changed_is_left_alone(repo, trees):
    worktree = trees.create(repo.path)
    repo.git("branch", f"delegate/{worktree.delegation_id}")
    mine = repo.head
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch == f"delegate/{worktree.delegation_id}-2"
    assert repo.git("rev-parse", f"delegate/{worktree.delegation_id}") == mine


def test_a_branch_called_delegate_costs_the_branch_and_not_the_patch(repo, trees):
    repo.git("branch", "delegate")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    patch = trees.patch(worktree)
    assert patch.branch is None
    assert patch.names == ("a.py",)
    assert any("no branch was made" in warning for warning in patch.warnings)


def test_hundreds_of_files_are_imported_as_one_pack(repo, trees):
    worktree = trees.create(repo.path)
    for n in range(300):
        (Path(worktree.root) / f"f{n}").write_text(f"{n}\n")
    patch = trees.patch(worktree)
    assert patch.files == 300
    assert repo.git("show", f"{patch.branch}:f299") == "299"


def test_hooks_of_the_repository_never_run(repo, trees, tmp_path):
    ran = tmp_path / "ran"
    for name in ("post-checkout", "pre-commit", "commit-msg", "reference-transaction", "post-index-change"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
        hook.chmod(0o755)
    repo.git("config", "core.hooksPath", ".git/hooks")
    worktree = trees.create(repo.path)
    (Path(worktree.root) / "a.py").write_text("edited\n")
    assert trees.patch(worktree).branch
    assert not ran.exists()
