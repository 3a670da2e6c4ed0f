"""Which stack to run: resolved once from the settings, then passed on as a value."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal, cast, get_args

from delegation.errors import UsageError
from delegation.home import Home
from delegation.layout import pipeline_directory

WORK_POOL = "delegations"
STACK_VARIABLES = (
    "DELEGATE_SERVER_PORT",
    "DELEGATE_DATABASE",
    "DELEGATE_DATABASE_URL",
    "PREFECT_API_URL",
    "PREFECT_API_AUTH_STRING",
    "PREFECT_API_KEY",
)
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
    """What to run. `ceilings` is the user's limit of parallel agents per bucket."""

    home: Home
    server_port: int | None = None
    database: DatabaseChoice = "auto"
    database_url: str | None = None
    foreign: ForeignServer | None = None
    ceilings: Mapping[str, int] = field(default_factory=dict[str, int])

    def fingerprint(self) -> str:
        """Changes with our code and with what is to run; `up` compares it with the running stack's."""
        digest = hashlib.sha256(program_version().encode())
        digest.update(repr((self.server_port, self.database, self.database_url, self.foreign)).encode())
        for source in _sources():
            digest.update(str(source).encode() + source.read_bytes())
        return digest.hexdigest()[:16]


def configuration(environ: Mapping[str, str] | None = None) -> Configuration:
    """Read the settings. Raises UsageError naming the variable that makes no sense."""
    from delegation.settings import load_settings

    given = os.environ if environ is None else environ
    settings = load_settings(given)
    return Configuration(
        home=settings.home,
        server_port=_port(given.get("DELEGATE_SERVER_PORT")),
        database=_database_choice(given.get("DELEGATE_DATABASE")),
        database_url=given.get("DELEGATE_DATABASE_URL") or None,
        foreign=_foreign(given),
        ceilings=_ceilings(settings),
    )


def program_version() -> str:
    return version("delegate-flows")


def _port(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise UsageError(f"DELEGATE_SERVER_PORT is {text!r}: give a port from 1 to 65535")
    return int(text)


def _database_choice(text: str | None) -> DatabaseChoice:
    if not text:
        return "auto"
    if text not in get_args(DatabaseChoice):
        raise UsageError(f"DELEGATE_DATABASE is {text!r}: give one of {', '.join(get_args(DatabaseChoice))}")
    return cast(DatabaseChoice, text)


def _foreign(environ: Mapping[str, str]) -> ForeignServer | None:
    url = environ.get("PREFECT_API_URL")
    if not url:
        return None
    return ForeignServer(url.rstrip("/"), environ.get("PREFECT_API_AUTH_STRING"), environ.get("PREFECT_API_KEY"))


def _sources() -> list[Path]:
    pipeline = pipeline_directory()
    package = Path(__file__).resolve().parent.parent / "delegation"
    folders = [pipeline / name for name in ("flows", "tasks", "deployments")] + [package]
    return [pipeline / "prefect.yaml", *sorted(path for folder in folders for path in folder.rglob("*.py"))]
