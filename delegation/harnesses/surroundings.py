"""Where a command-line agent runs: private folders, an environment by allowlist, walls, and the state that stays."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from delegation.confinement import Walls, agent_walls
from delegation.errors import StackError, WorkFailed
from delegation.harnesses.harness import Job
from delegation.harnesses.installed import program_path
from delegation.process import NO_LITTER, child_environment, make_private_folders
from delegation.settings import Settings

StatefulHarness = Literal["codex", "gemini", "dsh"]


def home_of(job: Job) -> Path:
    return job.place / "home"


def temp_of(job: Job) -> Path:
    return job.place / "temp"


def prepare_place(job: Job, settings: Settings) -> None:
    """Make the private folders (mode 700) and write the task into its file (mode 600)."""
    for folder in (job.place, job.out):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    make_private_folders(home_of(job), temp_of(job), user_home=settings.user_home)
    write_private(job.task_file, job.task)


def write_private(path: Path, text: str) -> None:
    """A file that only we read, from its first byte on; a link that lies there is replaced, not followed."""
    with suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def environment_of(
    job: Job, settings: Settings, *, extra: Mapping[str, str] | None = None, passthrough: Sequence[str] = ()
) -> dict[str, str]:
    """The allowlist with private HOME and TMPDIR, what the job and the user pass on, then `extra`."""
    source = dict(settings.environ)
    if job.search_path is not None:
        source["PATH"] = job.search_path
    return child_environment(
        home=home_of(job),
        temp=temp_of(job),
        extra={**NO_LITTER, **job.environment, **(extra or {})},
        passthrough=(*settings.env_passthrough, *passthrough),
        source=source,
    )


def walls_of(
    job: Job,
    settings: Settings,
    env: Mapping[str, str],
    *,
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    network: bool = True,
) -> Walls:
    """The walls of every agent, with what this program needs of its own. A program that speaks to its model itself has
    the network, whatever its commands may have."""
    return agent_walls(
        tree=job.tree,
        temp=temp_of(job),
        home=home_of(job),
        git=None,
        network=network,
        our_home=settings.home.root,
        env=env,
        readable=(job.task_file, *job.readable, *readable),
        writable=(job.out, *job.writable, *writable),
    )


def needed_program(name: str, settings: Settings, job: Job, variable: str) -> Path:
    """The same, or WorkFailed('process') that says which variable names it."""
    found = program_path(name, settings, job.search_path)
    if found is None:
        raise WorkFailed("process", f"{name!r} is not on PATH: install it, or name it in {variable}")
    return found


def state_folder(settings: Settings, harness: StatefulHarness) -> Path:
    """Where a harness keeps what outlives a run (mode 700). Raises StackError for a link or an unwritable place."""
    moved = {
        "codex": settings.codex_state_dir,
        "gemini": settings.gemini_state_dir,
        "dsh": settings.dsh_state_dir,
    }[harness]
    folder = moved or settings.home.harnesses / harness
    if folder.is_symlink():
        raise StackError(f"the state directory {str(folder)!r} is a link: name the folder itself")
    settings.home.make(settings.home.harnesses)
    settings.home.make(folder)
    folder.chmod(0o700)
    return folder
