"""The demo's repository is made by GitPython, and whole whatever git the caller's environment speaks of."""

import subprocess
from pathlib import Path

import pytest

from delegation.sample import make_repository


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_the_sample_repository_is_whole_under_inherited_git_variables(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere" / "git"))
    repo = make_repository(tmp_path / "sample")
    monkeypatch.delenv(variable)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert _git(repo, "status", "--porcelain") == ""
    assert _git(repo, "log", "--format=%an <%ae> %s", "main") == "Demo <demo@example.invalid> Statistics with a bug\n"
    assert _git(repo, "fsck", "--strict") == ""


def _git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True, text=True).stdout
