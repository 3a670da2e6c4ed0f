"""What an earlier run of the same delegation left: a retry writes the same files again, after they were copied."""

import contextlib
import shutil
from pathlib import Path

_KEPT = (
    "patch.diff",
    "patch.json",
    "base.log",
    "candidate.log",
    "candidate-base-tests.log",
    "work.json",
    "harness.json",
    "harness.log",
    "failure.txt",
)
_OUT = "out"  # what dsh left for review


def keep_earlier(folder: Path) -> None:
    """Copy the files of a run that has ended to `earlier/N`, once for each receipt, which itself is kept beside
    the new one (`records.store`). A disk that takes no copy does not keep the delegation from being done again."""
    if not (folder / "receipt.json").exists():
        return
    number = 1 + sum(1 for _ in folder.glob("receipt.*.json"))
    place = folder / "earlier" / str(number)
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.mkdir(mode=0o700)
        for name in _KEPT:
            if (folder / name).is_file():
                shutil.copy2(folder / name, place / name)
        if (folder / _OUT).is_dir():
            shutil.copytree(folder / _OUT, place / _OUT, symlinks=True)
