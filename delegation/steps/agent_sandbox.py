"""The sandbox an agent works in: its tree, a private home and temp, and the walls around its commands."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delegation.checkout.guarded import guarded_paths
from delegation.checkout.worktree import Worktree, agent_git_environment, git_places
from delegation.confinement import Confiner, Walls, agent_walls, find_confiner
from delegation.home import Home
from delegation.process import NO_LITTER, Finished, Limit, child_environment, make_private_folders, run, shell
from delegation.request import DelegationRequest
from delegation.secrets import value_of
from delegation.settings import environment

_STDOUT = Limit(head=6_000, tail=6_000)
_STDERR = Limit(head=2_000, tail=2_000)


@dataclass(frozen=True)
class AgentSandbox:
    """Made by `sandbox_of`. `confiner` is None where nothing confines."""

    cwd: Path
    env: Mapping[str, str]
    walls: Walls
    confiner: Confiner | None
    most_processes: int

    @property
    def confined_by(self) -> str | None:
        return self.confiner.name if self.confiner else None

    def shell(self, command: str, timeout_seconds: float, cancelled: threading.Event | None = None) -> Finished:
        """Run one line of shell behind the walls; nothing it started is left. Raises WorkFailed."""
        return run(
            shell(command),
            cwd=self.cwd,
            env=self.env,
            timeout_seconds=timeout_seconds,
            confiner=self.confiner,
            walls=self.walls,
            stdout_limit=_STDOUT,
            stderr_limit=_STDERR,
            cancelled=cancelled,
            most_processes=self.most_processes,
        )


def sandbox_of(request: DelegationRequest, worktree: Worktree, home: Home) -> AgentSandbox:
    """The sandbox around a worktree. Raises WorkFailed('confinement') where walls are required and cannot be put up."""
    private_home, temp = Path(worktree.place) / "home", Path(worktree.place) / "temp"
    make_private_folders(private_home, temp)
    passed = {name: value_of(home, reference) for name, reference in request.environment_refs.items()}
    extra = {**passed, **agent_git_environment(worktree), **NO_LITTER}
    env = child_environment(home=private_home, temp=temp, extra=extra, source=callers_environment(request))
    walls = agent_walls(
        tree=Path(worktree.root),
        temp=temp,
        home=private_home,
        git=git_places(worktree),
        network=request.network,
        our_home=home.root,
        env=env,
        readable=guarded_paths(worktree),
    )
    return AgentSandbox(
        cwd=Path(worktree.workdir),
        env=env,
        walls=walls,
        confiner=find_confiner(request.confinement),
        most_processes=request.max_processes,
    )


def callers_environment(request: DelegationRequest) -> dict[str, str]:
    """This process's environment with the caller's PATH: the stack may have been started from another project."""
    own = dict(environment())
    return own if request.search_path is None else {**own, "PATH": request.search_path}
