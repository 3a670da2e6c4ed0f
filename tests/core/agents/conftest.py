"""A working tree, a real shell in it, and a way to call tools as a model does."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.run_bash import Shell
from delegation.agents.tools.toolbox import Toolbox
from delegation.chat.messages import ToolUse
from delegation.process import child_environment, make_private_folders, run, shell
from tests.core.agents.runs import Runs

Call = Callable[..., ToolAnswer]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The working tree; its parent holds what must stay out of reach."""
    root = tmp_path / "tree"
    root.mkdir()
    return root


@pytest.fixture
def cancelled() -> threading.Event:
    return threading.Event()


@pytest.fixture
def bash(root: Path, tmp_path: Path, cancelled: threading.Event) -> Shell:
    """Real commands in the working tree, without walls."""
    home, temp = tmp_path / "agent-home", tmp_path / "agent-temp"
    make_private_folders(home=home, temp=temp)
    env = child_environment(home=home, temp=temp)
    return lambda command, seconds: run(shell(command), cwd=root, env=env, timeout_seconds=seconds, cancelled=cancelled)


@pytest.fixture
def toolbox(root: Path, bash: Shell) -> Toolbox:
    return Toolbox(root, bash, bash_timeout_seconds=20)


@pytest.fixture
def call(toolbox: Toolbox) -> Call:
    """`call("read_file", path="a.py")` as a model would."""

    def called(name: str, **arguments: Any) -> ToolAnswer:
        return toolbox.call(ToolUse("id", name, arguments), 60)

    return called


@pytest.fixture
def a_py(root: Path) -> Path:
    (root / "a.py").write_text("x = 1\n")
    return root / "a.py"


@pytest.fixture(name="run")
def _run(toolbox: Toolbox, tmp_path: Path, cancelled: threading.Event) -> Runs:
    return Runs(toolbox, tmp_path, cancelled)
