"""A place to run commands in, unconfined and behind bubblewrap."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from delegation.confinement import Confiner, Walls, agent_walls, find_confiner
from delegation.process import Finished, child_environment, make_private_folders, run, shell


@dataclass
class Place:
    """Runs commands in a folder of its own with the environment an agent gets."""

    root: Path
    confiner: Confiner | None = None
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.tree.mkdir()
        make_private_folders(self.root / "home", self.root / "temp")
        self.env = child_environment(home=self.root / "home", temp=self.root / "temp")

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def walls(self) -> Walls | None:
        if self.confiner is None:
            return None
        return agent_walls(
            tree=self.tree,
            temp=self.root / "temp",
            home=self.root / "home",
            git=None,
            network=True,
            our_home=self.root / "ours",
            env=self.env,
        )

    def run(self, command: str | Sequence[str], timeout_seconds: float = 20, **options: Any) -> Finished:
        argv = shell(command) if isinstance(command, str) else command
        return run(
            argv,
            cwd=self.tree,
            env=self.env,
            timeout_seconds=timeout_seconds,
            confiner=self.confiner,
            walls=self.walls,
            **options,
        )

    def processes(self) -> list[psutil.Process]:
        """Living processes that work in the tree, whoever started them."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(self.tree):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return [process for process in found if process.pid != os.getpid()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Without walls."""
    return Place(tmp_path)


@pytest.fixture(params=["unconfined", "confined"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Once without walls, once behind them."""
    confiner = find_confiner("auto") if request.param == "confined" else None
    if request.param == "confined" and confiner is None:
        pytest.skip("no walls on this machine")
    return Place(tmp_path, confiner)


@pytest.fixture
def until() -> Callable[[Callable[[], bool], float], bool]:
    """Waits for a condition with a bound; returns whether it came true."""

    def wait(condition: Callable[[], bool], seconds: float = 5) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    return wait
