"""Which stack to run: resolved once from the settings, then passed on as a value."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from delegation.home import Home
from delegation.layout import pipeline_directory
from delegation.records.retention import RecordPolicy, policy_of
from delegation.settings import Settings, load_settings, settings_at_work
from deployments.registration.buckets import Bucket, planned_buckets

WORK_POOL = "delegations"
STACK_VARIABLES = (
    "DELEGATE_SERVER_PORT",
    "DELEGATE_DATABASE",
    "DELEGATE_DATABASE_URL",
    "DELEGATE_LAUNCHER",
    "DELEGATE_WORKTREE_KEEP_DAYS",
    "DELEGATE_WORKTREE_BUDGET_GB",
    "DELEGATE_RECORD_KEEP_DAYS",
    "DELEGATE_RECORD_KEEP_COUNT",
    "DELEGATE_RECORD_BUDGET_GB",
    "PREFECT_API_URL",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_API_KEY",
)
CEILING_PREFIX = "DELEGATE_CONCURRENCY_"
DatabaseChoice = Literal["auto", "embedded", "sqlite"]


@dataclass(frozen=True)
class ForeignServer:
    """A Prefect server of the user's own, by PREFECT_API_URL."""

    api_url: str
    auth_string: str | None
    api_key: str | None

    @property
    def ui_url(self) -> str:
        return self.api_url.removesuffix("/").removesuffix("/api")


@dataclass(frozen=True)
class Configuration:
    """What to run."""

    home: Home
    server_port: int | None = None
    database: DatabaseChoice = "auto"
    database_url: str | None = None
    launcher: bool = True
    foreign: ForeignServer | None = None
    buckets: tuple[Bucket, ...] = ()
    ceilings: Mapping[str, int] = field(default_factory=dict[str, int])
    keep_days: float = 7.0
    budget_gb: float = 20.0
    records: RecordPolicy = field(default_factory=RecordPolicy)

    @property
    def ceiling_variables(self) -> dict[str, str]:
        """The user's explicit ceilings, as the variables they came from."""
        return {CEILING_PREFIX + key: str(slots) for key, slots in self.ceilings.items()}

    def fingerprint(self) -> str:
        """Of all our code; a running stack with another one takes the new code when `up` is called."""
        return _digest(_sources())

    def settings_hash(self) -> str:
        """Of the settings that only a new start can change."""
        chosen = (self.server_port, self.database, self.database_url, self.launcher, self.foreign)
        return hashlib.sha256(repr(chosen).encode()).hexdigest()[:16]


def keeper_fingerprint() -> str:
    """Of the code that the keeper itself runs."""
    return _digest(sorted((pipeline_directory() / "deployments").rglob("*.py")))


def configuration(environ: Mapping[str, str] | None = None, *, at_work: bool = False) -> Configuration:
    """Read the settings, `at_work` also where `delegate.toml` cannot be read: what runs can be ended and looked at.

    Raises UsageError naming the variable that makes no sense.
    """
    settings = settings_at_work(environ) if at_work else load_settings(environ)
    return Configuration(
        home=settings.home,
        server_port=settings.server_port,
        database=settings.database,
        database_url=settings.database_url,
        launcher=settings.launcher,
        foreign=_foreign(settings),
        buckets=planned_buckets(settings),
        ceilings=settings.ceilings,
        keep_days=settings.worktree_keep_days,
        budget_gb=settings.worktree_budget_gb,
        records=policy_of(settings),
    )


def program_version() -> str:
    return version("delegate-flows")


def _foreign(settings: Settings) -> ForeignServer | None:
    if not settings.prefect_api_url:
        return None
    return ForeignServer(
        str(settings.prefect_api_url).rstrip("/"), settings.prefect_auth_string, settings.prefect_api_key
    )


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(program_version().encode())
    for file in files:
        digest.update(str(file).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    pipeline = pipeline_directory()
    package = Path(__file__).resolve().parent.parent / "delegation"
    folders = [pipeline / name for name in ("flows", "tasks", "deployments")] + [package]
    return [pipeline / "prefect.yaml", *sorted(path for folder in folders for path in folder.rglob("*.py"))]
