"""Our walls around a program that puts up a sandbox of its own, where the machine allows one inside the other."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from delegation.card import Confinement
from delegation.confinement import Confiner, Walls, find_confiner
from delegation.confinement.bubblewrap import Bubblewrap
from delegation.process import run, shell

_SECONDS = 10
_SANDBOX = "--unshare-user --unshare-pid --unshare-net --ro-bind / / --dev /dev"
_USER = ("--unshare-user", "--uid", "1000", "--gid", "1000")
_SEEN: dict[tuple[str, str], bool] = {}


def confiner_around(mode: Confinement, bwrap: Path | None, *, walls: Walls, cwd: Path) -> Confiner | None:
    """Our confiner, if a sandbox can be put up inside it; None where not, and the program's own has to do.

    Without that look every command of the run would fail inside, while the run itself ends well. `bwrap` is the one
    that the program brings; none means the system's.
    """
    found = find_confiner("off" if mode == "off" else "auto")
    if found is None or not found.contains_processes:
        return None  # macOS refuses a sandbox within a sandbox
    confiner = _WithoutRoot(found) if isinstance(found, Bubblewrap) and os.geteuid() == 0 else found
    return confiner if _second_sandbox_works(confiner, str(bwrap or "bwrap"), walls, cwd) else None


@dataclass(frozen=True)
class _WithoutRoot:
    """The same walls, in which root has another number: the kernel lets no namespace be made in which root without
    capabilities would be root again."""

    inner: Confiner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def contains_processes(self) -> bool:
        return self.inner.contains_processes

    def wrap(self, argv: Sequence[str], *, walls: Walls, cwd: Path) -> list[str]:
        """See `Confiner.wrap`."""
        program, *words = self.inner.wrap(argv, walls=walls, cwd=cwd)
        return [program, *_USER, *words]


def _second_sandbox_works(confiner: Confiner, bwrap: str, walls: Walls, cwd: Path) -> bool:
    """Found out once for a machine, by putting one up."""
    key = (confiner.name, bwrap)
    if key not in _SEEN:
        inner = shell(f"{shlex.quote(bwrap)} {_SANDBOX} true")
        env = {"PATH": os.defpath}
        done = run(inner, cwd=cwd, env=env, timeout_seconds=_SECONDS, confiner=confiner, walls=walls)
        _SEEN[key] = done.exit_code == 0
    return _SEEN[key]
