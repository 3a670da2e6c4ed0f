"""A home without a stack: the first tool that needs one starts it, and the end of the tests takes it down."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class User:
    """One home, a repository with a failing test, and the program run in them."""

    home: Path
    repo: Path
    environ: Mapping[str, str]

    def delegate(self, *words: str, timeout: float = 170) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "mcp_entry", *words]
        return subprocess.run(
            argv,
            cwd=self.repo,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def told(self, *words: str) -> dict[str, Any]:
        return json.loads(self.delegate(*words, "--json").stdout)

    def processes(self) -> list[str]:
        """Command lines of all processes whose environment carries this home."""
        found: list[str] = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("DELEGATE_HOME") == str(self.home) and process.pid != os.getpid():
                    found.append(f"{process.pid} {' '.join(process.cmdline())}")
            except (psutil.Error, OSError):
                continue
        return found


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user without a stack at first. Afterwards there is none either, and no process is left."""
    home, repo = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("repo")
    (repo / "adding.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    (repo / "test_adding.py").write_text(
        "from adding import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n", encoding="utf-8"
    )
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = User(home, repo, {**os.environ, "PATH": path, "DELEGATE_HOME": str(home), "PYTHONPATH": str(ROOT)})
    yield found
    down = found.delegate("down", "--purge", "--json")
    assert down.returncode == 0, down.stderr
    assert found.processes() == []
