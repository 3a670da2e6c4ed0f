"""A stack of its own for a measurement, and the programs that are driven on it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delegation.home import Home
from delegation.stack_state import StackState, running_stack
from deployments.rest import PrefectRest
from tests.bench.model import ROOT, Model

DELEGATE = Path(sys.executable).with_name("delegate")


@dataclass(frozen=True)
class Bench:
    """A home with a running stack, a repository, and the environment of its user."""

    folder: Path
    repo: Path
    env: Mapping[str, str]

    @property
    def home(self) -> Home:
        root = Path(self.env["DELEGATE_HOME"])
        return Home(root, root / "config" / "delegate.toml")

    @property
    def state(self) -> StackState:
        return running_stack(self.home)

    @property
    def keeper(self) -> int:
        return self.state.keeper.pid

    def pids(self) -> dict[str, int]:
        """The stack's processes by name."""
        report = json.loads((self.home.stack / "progress.json").read_text(encoding="utf-8"))
        return {name: each["pid"] for name, each in report["processes"].items()}

    def rest(self) -> PrefectRest:
        return PrefectRest(self.state.api_url, self.state.auth_string)

    def delegate(self, *words: str, seconds: float = 300) -> dict[str, Any]:
        """What the terminal prints with --json."""
        return json.loads(run([str(DELEGATE), *words, "--json"], self.env, cwd=self.repo, seconds=seconds))


@contextmanager
def stack(model: Model | None = None, **settings: str) -> Iterator[Bench]:
    """A running stack whose one model is that one; everything of it is gone after the block."""
    with temporary_folder() as folder:
        env = environment(folder, model, **settings)
        bench = Bench(folder, repository(folder / "repo"), env)
        try:
            run([str(DELEGATE), "up", "--json"], env)
            yield bench
        finally:
            subprocess.run([str(DELEGATE), "down", "--purge"], env=env, capture_output=True, check=False)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="delegate-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def environment(folder: Path, model: Model | None, **settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELEGATE_", "PREFECT_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # without byte code every start takes three times as long
    env = {**kept, "DELEGATE_HOME": str(folder / "home")}
    if model is not None:
        local = {"URL": f"{model.base_url}/chat/completions", "KEY": "sk-bench", "MODEL": "openai-bench"}
        env |= {f"DELEGATE_LOCAL_{name}": value for name, value in local.items()}
    return {**env, **settings}


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("A small repository.\n", encoding="utf-8")
    named = ("-c", "user.name=B", "-c", "user.email=b@example.invalid")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*named, "commit", "-q", "-m", "base")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def run(words: list[str], env: Mapping[str, str], *, cwd: Path = ROOT, seconds: float = 300) -> str:
    """Its stdout. Raises RuntimeError with the end of stderr when it fails."""
    done = subprocess.run(
        words, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(words)[:300]} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}"
        )
    return done.stdout
