"""Which walls this machine can put up, found out by putting them up once."""

import functools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from delegation.card import Confinement
from delegation.confinement.bubblewrap import Bubblewrap
from delegation.confinement.seatbelt import Seatbelt
from delegation.confinement.walls import Confiner, Walls
from delegation.errors import WorkFailed

_PROBE_SECONDS = 20


@dataclass(frozen=True)
class Probe:
    """A confiner that was seen to work, or why there is none and what would help."""

    confiner: Confiner | None
    reason: str | None = None


def find_confiner(mode: Confinement) -> Confiner | None:
    """The confiner to use. `auto` gives None where none works, `off` always.

    Raises WorkFailed("confinement") when one is `required` and none works; the message says how to get one.
    """
    match mode:
        case "off":
            return None
        case "auto":
            return probe().confiner
        case "required":
            found = probe()
            if found.confiner is None:
                raise WorkFailed("confinement", f"confinement is required, but {found.reason}")
            return found.confiner
        case _:
            assert_never(mode)


@functools.cache
def probe() -> Probe:
    """Really runs a command behind walls, once per process."""
    if sys.platform == "linux":
        return _probe_bubblewrap(shutil.which("bwrap"))
    if sys.platform == "darwin":
        return _probed(Seatbelt(), "sandbox-exec does not work here")
    return Probe(None, f"there is none for {sys.platform}: use Linux or macOS, or set confinement to 'off'")


def _probe_bubblewrap(program: str | None) -> Probe:
    if program is None:
        return Probe(
            None,
            "bubblewrap is not installed: install the package 'bubblewrap' (apt, dnf, pacman, zypper and apk have it), "
            "or set confinement to 'off'",
        )
    version = _output([program, "--version"]).removeprefix("bubblewrap").strip()
    return _probed(Bubblewrap(program, version), f"{program!r} does not work here")


def _probed(confiner: Confiner, complaint: str) -> Probe:
    with tempfile.TemporaryDirectory(prefix="walls-") as folder:
        place = Path(folder).resolve()
        walls = Walls(writable=(place,), network=False, temp=place)
        try:
            done = subprocess.run(
                confiner.wrap(["true"], walls=walls, cwd=place),
                cwd=place,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Probe(None, f"{complaint}: {error}")
    if done.returncode == 0:
        return Probe(confiner)
    said = done.stderr.decode("utf-8", "replace").strip()
    return Probe(None, f"{complaint}: {said or f'exit code {done.returncode}'}. {_advice(said)}")


def _advice(said: str) -> str:
    """What to change, from what bubblewrap says and what the kernel allows."""
    for setting, bad, text in (
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile with 'userns'",
        ),
    ):
        if _setting(setting) == bad:
            return f"User namespaces are forbidden on this machine; an administrator can allow them: {text}"
    if "proc" in said:
        return "In a container, mounting /proc is forbidden: start it with --security-opt systempaths=unconfined"
    return "In a container, allow user namespaces (--security-opt seccomp=unconfined), or set confinement to 'off'"


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, timeout=_PROBE_SECONDS, check=False).stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return ""
