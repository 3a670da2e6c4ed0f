"""In place an agent works in the user's own repository: its settings and hooks are as before afterwards."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from delegation.checkout.guarded import guarded_paths, put_back
from delegation.errors import UsageError


def in_place(repo, trees):
    return trees.create(repo.path, isolation="in_place")


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    hooks = folder / "hooks"
    below = [hooks] if hooks.is_symlink() else sorted(hooks.rglob("*"))
    return {
        str(path): (path.lstat().st_mode, os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes())
        for path in (folder / "config", *below, folder / "info" / "attributes")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def hooked(repo):
    """A repository with a hook, and one that is a link."""
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text("#!/bin/sh\nexit 0\n")
    (hooks / "pre-push").chmod(0o755)
    (hooks / "commit-msg").symlink_to("../../check.sh")
    return repo


ATTACKS = {
    "a file system monitor": "git config core.fsmonitor 'touch $MARK; false'",
    "another hooks folder": "git config core.hooksPath /tmp/elsewhere",
    "a repository called bare": "git config core.bare true",
    "an alias": "git config alias.st '!touch $MARK'",
    "a new hook": "printf '#!/bin/sh\\ntouch $MARK\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit",
    "an edited hook": "echo 'touch $MARK' >> .git/hooks/pre-push",
    "a link turned into a file": "rm .git/hooks/commit-msg; echo 'touch $MARK' > .git/hooks/commit-msg",
    "a mode": "chmod 600 .git/hooks/pre-push",
    "attributes": "mkdir -p .git/info; echo '*.py filter=x' > .git/info/attributes",
    "hooks gone": "rm -rf .git/hooks",
    "hooks a link to the files": "rm -rf .git/hooks; ln -s .. .git/hooks",
    "settings gone": "rm .git/config",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_settings_and_hooks_that_an_agent_changed_are_put_back_and_named(attack: str, hooked, trees, tmp_path: Path):
    before, files = everything(hooked.path / ".git"), sorted(path.name for path in hooked.path.iterdir())
    worktree = in_place(hooked, trees)
    env = {"PATH": os.environ["PATH"], "MARK": str(tmp_path / "ran"), "HOME": str(tmp_path)}
    subprocess.run(["sh", "-c", attack], cwd=worktree.root, env=env, check=True)
    assert everything(hooked.path / ".git") != before
    said = put_back(worktree)
    assert everything(hooked.path / ".git") == before
    assert said
    assert sorted(path.name for path in hooked.path.iterdir()) == files
    assert put_back(worktree) == ()
    hooked.git("status")
    assert not (tmp_path / "ran").exists()


def test_what_was_put_back_can_be_looked_at(hooked, trees):
    worktree = in_place(hooked, trees)
    hooked.git("config", "remote.mine.url", "https://example.org/x")
    (said,) = put_back(worktree)
    aside = Path(said.split("'")[1])
    assert said.startswith("config (as it was left:")
    assert "https://example.org/x" in aside.read_text()


def test_collecting_puts_back_too_and_leaves_commits_and_branches_alone(hooked, trees):
    worktree = in_place(hooked, trees)
    hooked.git("config", "core.hooksPath", "/tmp/elsewhere")
    hooked.git("branch", "mine")
    hooked.write("new.py")
    patch = trees.patch(worktree)
    assert patch.names == ("new.py",)
    assert hooked.git("config", "core.hooksPath", check=False) == ""
    assert "mine" in hooked.git("branch")


def test_settings_of_submodules_are_put_back_too(repo, trees, make_repo):
    inner = make_repo("inner")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.commit()
    worktree = in_place(repo, trees)
    repo.git("config", "core.fsmonitor", "touch /tmp/x", cwd=repo.path / "sub")
    assert [said.split(" ")[0] for said in put_back(worktree)] == ["modules/sub/config"]
    assert repo.git("config", "core.fsmonitor", cwd=repo.path / "sub", check=False) == ""


def test_walls_keep_settings_and_hooks_read_only_in_place_and_trees_of_ours_have_none(hooked, trees):
    git_dir = hooked.path / ".git"
    assert {git_dir / "config", git_dir / "hooks"} <= set(guarded_paths(in_place(hooked, trees)))
    assert guarded_paths(trees.create(hooked.path)) == ()
    assert put_back(trees.create(hooked.path)) == ()


def test_a_repository_that_is_gone_or_moved_is_left_to_itself(hooked, trees):
    worktree = in_place(hooked, trees)
    shutil.rmtree(hooked.path)
    assert put_back(worktree) == ()


def test_agents_that_share_a_checkout_are_named_to_each_other(repo, trees):
    first = in_place(repo, trees)
    second = in_place(repo, trees)
    repo.write("new.py")
    said = [trees.patch(worktree).warnings for worktree in (first, second)]
    assert [second.delegation_id in " ".join(said[0]), first.delegation_id in " ".join(said[1])] == [True, True]
    for worktree in (first, second):
        worktree.ledger.release(worktree.name)
    third = in_place(repo, trees)
    repo.write("more.py")
    assert not any("in the same checkout" in warning for warning in trees.patch(third).warnings)


def test_a_bare_repository_cannot_be_worked_on_in_place(repo, trees, tmp_path: Path):
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    with pytest.raises(UsageError, match="bare"):
        trees.create(tmp_path / "bare.git", isolation="in_place")
