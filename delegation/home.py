"""The folders of one user's state. No other module spells their names."""

import os
from dataclasses import dataclass
from pathlib import Path

from delegation.errors import StackError


@dataclass(frozen=True)
class Home:
    """`DELEGATE_HOME`: all state of one user. Every folder is private (mode 700)."""

    root: Path
    config_file: Path

    @property
    def delegations(self) -> Path:
        """One folder per delegation: request, status, trajectory, patch, receipt. The truth of history."""
        return self.root / "delegations"

    @property
    def worktrees(self) -> Path:
        return self.root / "worktrees"

    @property
    def ledger(self) -> Path:
        """One entry per tree we made: its lease, and where its work is kept."""
        return self.root / "ledger"

    @property
    def secrets(self) -> Path:
        """Key values by hash, mode 600."""
        return self.root / "secrets"

    @property
    def reading(self) -> Path:
        """Sessions, kept packs and the metrics file of the reading lane."""
        return self.root / "reading"

    @property
    def harnesses(self) -> Path:
        """State of the command-line agents: one folder for each, where no setting moves it."""
        return self.root / "harnesses"

    @property
    def no_repository(self) -> Path:
        """An empty folder: where a question that is about no repository is answered."""
        return self.root / "no-repository"

    @property
    def nights(self) -> Path:
        """One folder per night shift: which delegations its cards became, and its reports."""
        return self.root / "nights"

    @property
    def comparisons(self) -> Path:
        """One folder per comparison of models: what was asked for, and its reports."""
        return self.root / "comparisons"

    @property
    def stack(self) -> Path:
        """Pid file, state, ports, logs and settings of the running stack."""
        return self.root / "stack"

    @property
    def results(self) -> Path:
        """Persisted results of Prefect tasks."""
        return self.root / "results"

    @property
    def baselines(self) -> Path:
        """Verdicts of base commits, by cache key."""
        return self.root / "baselines"

    def make(self, folder: Path) -> Path:
        """Create a folder of ours with mode 700. Raises StackError naming the path when it cannot be written."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StackError(
                f"cannot write the state directory {str(folder)!r} ({error.strerror}): "
                "set DELEGATE_HOME to a folder you may write"
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StackError(
                f"the state directory {str(folder)!r} is not writable: set DELEGATE_HOME to another folder"
            )
        return folder
