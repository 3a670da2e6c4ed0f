"""A user with a login of agy, and runs of the stand-in for it in the real jail."""

import json
import shutil
from pathlib import Path
from typing import Any

from delegation.harnesses.gemini import Gemini
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.settings import Settings
from tests.doubles import agy_program
from tests.doubles.harness_jobs import harness_settings, job, left_of


def agy_settings(place: Path, *, allowed: str = "1", **how: Any) -> Settings:
    """A user with a login, and the stand-in told how to behave."""
    state = place / "user" / ".gemini" / "antigravity-cli"
    (state / "config").mkdir(parents=True, exist_ok=True)
    (state / "settings.json").write_text("{}", encoding="utf-8")
    (state / "stand-in.json").write_text(json.dumps(how), encoding="utf-8")
    program = place / "user" / ".local" / "bin" / "agy"
    program.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(agy_program.__file__, program)
    return harness_settings(place, DELEGATE_AGY_BIN=str(program), DELEGATE_GEMINI_ALLOW_DANGER=allowed)


def run_agy(place: Path, task: str = "Do it.", order: dict[str, Any] | None = None, **how: Any) -> HarnessResult:
    settings = agy_settings(place, **how)
    wanted = {"model": "gemini-3.8-flash-low", "idle_seconds": None, **(order or {})}
    result = run_harness(Gemini(settings), job(place, "gemini", task, **wanted), settings)
    assert left_of(place) == []
    return result
