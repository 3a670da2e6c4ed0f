"""What version a program says it is."""

import re
import tempfile
from pathlib import Path

from delegation.errors import WorkFailed
from delegation.process import run
from delegation.settings import Settings

_VERSION = re.compile(r"\b(\d+\.\d+(?:\.\d+)?(?:[-.\w]*)?)\b")
_SECONDS = 20.0


def version_of(program: Path, settings: Settings, flag: str = "--version") -> str | None:
    """The version in the first line of `program --version`; None where it does not say one."""
    path = settings.environ.get("PATH", "/usr/bin:/bin")
    with tempfile.TemporaryDirectory(prefix="delegate-version-") as home:  # some write to their home even for this
        env = {"PATH": path, "HOME": home, "TERM": "dumb", "LANG": "C.UTF-8"}
        try:
            done = run((str(program), flag), cwd=Path("/"), env=env, timeout_seconds=_SECONDS)
        except WorkFailed:
            return None
    found = _VERSION.search(done.stdout.text) if done.exit_code == 0 else None
    return found[1] if found else None


def at_least(version: str, least: tuple[int, ...]) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[: len(least)])
    return numbers >= least
