"""What is the same for every run of one verification, and what is said about it in the receipt."""

import platform
import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from delegation.confinement import Confiner
from delegation.errors import WorkFailed
from delegation.process import child_environment, make_private_folders, run
from delegation.verdict.interpreter import Interpreter, interpreter_of
from delegation.verdict.runners import runners_of

_MAY_CALL_NODE = re.compile(r"\b(?:node|npm|npx|pnpm|yarn|make|just|sh|bash)\b")


@dataclass(frozen=True)
class Conditions:
    """All that is the same for every run of one verification."""

    repo: Path
    base_commit: str
    command: str
    setup: str | None
    workdir: str
    place: Path
    our_home: Path
    confiner: Confiner | None
    network: bool
    timeout_seconds: float
    cancelled: threading.Event | None
    interpreter: Interpreter = field(default_factory=Interpreter)
    node_major: int | None = None
    environment: Mapping[str, str] | None = None  # that of whoever asked; none means this process's own
    readable: tuple[Path, ...] = ()  # installed packages and tools outside the usual places


def with_programs(bare: Conditions) -> Conditions:
    """The conditions with what can be seen of the programs the command will meet."""
    bare.place.mkdir(mode=0o700, parents=True, exist_ok=True)
    probe = bare.place / "probe"
    make_private_folders(probe / "h", probe / "t")
    env = child_environment(home=probe / "h", temp=probe / "t", source=bare.environment)
    interpreter = interpreter_of(f"{bare.command}\n{bare.setup or ''}", repo=bare.repo, workdir=bare.workdir, env=env)
    return replace(
        bare,
        interpreter=interpreter,
        node_major=_node_major(env, probe) if _MAY_CALL_NODE.search(bare.command) else None,
        readable=(*interpreter.places, *_tool_folders(bare)),
    )


def _node_major(env: Mapping[str, str], folder: Path) -> int | None:
    if shutil.which("node", path=env["PATH"]) is None:
        return None
    try:
        said = run(("node", "--version"), cwd=folder, env=env, timeout_seconds=30).stdout.text
    except WorkFailed:
        return None
    match = re.match(r"v(\d+)\.", said)
    return int(match[1]) if match else None


def _tool_folders(conditions: Conditions) -> list[Path]:
    """Environments whose tools the command names by absolute path: `/srv/venv/bin/pytest` needs `/srv/venv`."""
    words = re.split(r"[\s;&|()\"'=]+", f"{conditions.command}\n{conditions.setup or ''}")
    paths = [Path(word) for word in words if word.startswith("/") and len(Path(word).parts) > 2]
    return [path.parent.parent if path.parent.name == "bin" else path for path in paths if path.exists()]


def described(conditions: Conditions, setup_exit: int | None) -> dict[str, str | None]:
    """The environment of the runs, for the receipt."""
    pytest, runners = (
        conditions.interpreter.pytest,
        runners_of(conditions.command, conditions.repo / conditions.workdir),
    )
    return {
        "python": conditions.interpreter.version,
        "runner": f"pytest {pytest}" if pytest and "pytest" in runners else None,
        "node": f"{conditions.node_major}" if conditions.node_major else None,
        "confinement": conditions.confiner.name if conditions.confiner else None,
        "platform": platform.platform(),
        "setup_exit": None if setup_exit is None else str(setup_exit),
    }


def warnings_of(conditions: Conditions) -> tuple[str, ...]:
    leaks = conditions.interpreter.leaks
    if not leaks:
        return ()
    return (
        f"a package is installed in editable form from {', '.join(leaks)} of the repository; "
        "the checkouts' own folders were put before it by PYTHONPATH",
    )
