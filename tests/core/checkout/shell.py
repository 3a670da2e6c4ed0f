"""Commands as an agent runs them in its tree."""

import os
import subprocess
from pathlib import Path

from delegation.checkout.worktree import Worktree, agent_git_environment


def agent(worktree: Worktree, *args: str, check: bool = True, cwd: Path | None = None) -> str:
    env = {"PATH": os.environ["PATH"], **agent_git_environment(worktree)}
    done = subprocess.run(args, cwd=cwd or worktree.workdir, env=env, check=check, capture_output=True)
    return done.stdout.decode() + (done.stderr.decode() if not check else "")


def agent_git(worktree: Worktree, *args: str, check: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], **agent_git_environment(worktree)}
    done = subprocess.run(["git", *args], cwd=worktree.root, env=env, check=check, capture_output=True)
    return done.stdout.decode()
