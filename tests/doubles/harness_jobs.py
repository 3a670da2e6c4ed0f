"""Settings and jobs for command-line agents, in a place of the test's own."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from delegation.harnesses.harness import Job
from delegation.harnesses.order import HarnessName, Order
from delegation.settings import Settings, load_settings

NOWHERE = "http://127.0.0.1:9"


def harness_settings(place: Path, **more: str) -> Settings:
    """Settings whose homes lie below `place`, with a proxy that is not there for everything but loopback."""
    (place / "user").mkdir(parents=True, exist_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "user"),
        "DELEGATE_HOME": str(place / "delegate"),
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        **more,
    }
    return load_settings(environ, cwd=place)


def repository(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """A git repository with one commit."""
    folder.mkdir(parents=True)
    for name, text in (files or {"README.md": "hello\n"}).items():
        (folder / name).write_text(text, encoding="utf-8")
    for words in (("init", "-q", "-b", "main"), ("add", "--all"), ("commit", "-q", "-m", "base")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def job(place: Path, harness: HarnessName, task: str = "Do it.", *, tree: Path | None = None, **order: Any) -> Job:
    """A job in a repository below `place` (made when there is none)."""
    found = tree or (place / "tree" if (place / "tree").is_dir() else repository(place / "tree"))
    more = {name: order.pop(name) for name in list(order) if name in Job.__dataclass_fields__}
    wanted = Order.model_validate({"harness": harness, "timeout_seconds": 60, **order})
    return Job(order=wanted, task=task, workdir=found, tree=found, place=place / "run", **more)


def program(place: Path, name: str, text: str) -> Path:
    """An executable file."""
    path = place / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def left_of(place: Path) -> list[str]:
    """Command lines of processes that carry `place` in their environment, arguments or current folder."""
    found: list[str] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            about = [*process.cmdline(), process.cwd(), *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(place) in each for each in about):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
