"""The folders of the stack. Sockets lie in a short private folder of their own: their paths have 107 bytes at most."""

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from delegation.errors import StackError
from delegation.files import publish, text_or_none
from delegation.home import Home

_LONGEST_RUNTIME_FOLDER = 80  # leaves room for the longest socket name in it


@dataclass(frozen=True)
class Places:
    """Paths of one home's stack."""

    home: Home

    @property
    def stack(self) -> Path:
        return self.home.stack

    @property
    def logs(self) -> Path:
        return self.stack / "logs"

    @property
    def run_logs(self) -> Path:
        """What a flow process wrote to its own output, one file per flow run."""
        return self.logs / "runs"

    @property
    def runs(self) -> Path:
        """One file per living flow process: flow run id, pid, start time."""
        return self.stack / "runs"

    @property
    def prefect_home(self) -> Path:
        return self.stack / "prefect"

    @property
    def ui(self) -> Path:
        """The server's copy of the UI's files, with a page of our own among them."""
        return self.stack / "ui"

    @property
    def rendered(self) -> Path:
        return self.stack / "prefect.yaml"

    @property
    def progress(self) -> Path:
        """What the keeper is doing while it starts, for the `up` that waits."""
        return self.stack / "progress.json"

    @property
    def failure(self) -> Path:
        """Why the keeper could not start, for the `up` that waits."""
        return self.stack / "failure"

    @property
    def shared_tables(self) -> Path:
        """Our own tables, where the database is SQLite."""
        return self.stack / "shared.db"

    @property
    def runtime_note(self) -> Path:
        """Names the folder that `runtime` made."""
        return self.stack / "runtime"

    @property
    def kept(self) -> Path:
        """What survives a restart: port and passwords (mode 600)."""
        return self.stack / "kept.json"

    @property
    def token(self) -> str:
        """Names this home in the environment of every process of its stack, and in folders outside of it."""
        return hashlib.sha256(str(self.home.root).encode()).hexdigest()[:12]

    def make(self) -> None:
        """Create the folders. Raises StackError when the home cannot be written."""
        for folder in (self.stack, self.logs, self.run_logs, self.runs, self.prefect_home, self.home.results):
            self.home.make(folder)

    def runtime(self) -> Path:
        """The private folder for sockets, the same on every call once made. Raises StackError when it is not ours."""
        known = text_or_none(self.runtime_note)
        folder = Path(known) if known else _runtime_base() / f"delegate-{os.getuid()}-{self.token}"
        _make_private(folder)
        if not known:
            publish(self.runtime_note, str(folder))
        return folder


def _runtime_base() -> Path:
    for text in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir()):
        if text and len(os.fsencode(text)) <= _LONGEST_RUNTIME_FOLDER - 40 and os.access(text, os.W_OK | os.X_OK):
            return Path(text)
    return Path("/tmp")


def _make_private(folder: Path) -> None:
    """In a shared temp folder anybody may have made this name first: take it only when it is a folder of ours alone."""
    try:
        folder.mkdir(mode=0o700, parents=False, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise StackError(f"cannot make the runtime folder {str(folder)!r}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StackError(f"{str(folder)!r} is not a private folder of this user: remove it, or set XDG_RUNTIME_DIR")
