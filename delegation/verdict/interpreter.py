"""The Python a command will meet: its version, and installed packages that point back into the repository."""

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from delegation.errors import WorkFailed
from delegation.process import run

# Asked of the interpreter itself: only it knows its site folders, its .pth lines and its import hooks.
# Versions are read from folder names: importlib.metadata takes three times as long to import as all of this.
_QUESTION = """
import hashlib, json, os, re, sys
folders = [f for f in sys.path if f and os.path.isdir(f)]
sites = [f for f in folders if os.path.basename(f) in ("site-packages", "dist-packages")]
names, mapped = [], []
for folder in sites:
    for name in sorted(os.listdir(folder)):
        if name.endswith((".dist-info", ".egg-link", ".pth")): names.append(name)
        if re.match(r"__editable__.*finder.*\\.py$", name):
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                mapped += re.findall(r"['\\"](/[^'\\"]+)['\\"]", stream.read())
versions = [match[1] for name in names if (match := re.match(r"pytest-([0-9][^-]*)[.]dist-info$", name))]
pytest = versions[0] if versions else None
print(json.dumps({"executable": sys.executable, "version": sys.version.split()[0], "pytest": pytest,
  "fingerprint": hashlib.sha256("\\n".join(names).encode()).hexdigest(), "folders": folders, "mapped": mapped,
  "prefixes": [sys.prefix, sys.base_prefix]}))
"""


@dataclass(frozen=True)
class Interpreter:
    """What was learned of one Python."""

    executable: str | None = None
    version: str | None = None
    pytest: str | None = None
    fingerprint: str | None = None
    leaks: tuple[str, ...] = ()  # folders relative to the repository that installed packages are imported from
    places: tuple[Path, ...] = ()  # what it needs to read outside the repository's own source


def interpreter_of(command: str, *, repo: Path, workdir: str, env: Mapping[str, str]) -> Interpreter:
    """Ask the Python that `command` would use in `repo`. An empty answer where there is none or it is broken."""
    folder = repo / workdir if (repo / workdir).is_dir() else repo
    executable = _executable(command, folder, env.get("PATH", ""))
    if executable is None:
        return Interpreter()
    try:
        finished = run((executable, "-c", _QUESTION), cwd=folder, env=env, timeout_seconds=30)
        answer = cast(dict[str, object], json.loads(finished.stdout.text.strip().splitlines()[-1]))
    except (WorkFailed, ValueError, IndexError):
        return Interpreter()
    found = [*cast(list[str], answer["folders"]), *_import_roots(cast(list[str], answer["mapped"]))]
    leaks = _leaks(found, repo)
    outside = [
        Path(place) for place in found if Path(place).resolve() not in {(repo / leak).resolve() for leak in leaks}
    ]
    return Interpreter(
        executable=cast(str, answer["executable"]),
        version=cast(str, answer["version"]),
        pytest=cast("str | None", answer["pytest"]),
        fingerprint=cast(str, answer["fingerprint"]),
        leaks=leaks,
        places=tuple(dict.fromkeys([*map(Path, cast(list[str], answer["prefixes"])), *outside])),
    )


def _executable(command: str, folder: Path, path: str) -> str | None:
    """The interpreter named in the command, the one beside a tool named by its path, else the first on PATH."""
    for word in re.split(r"[\s;&|()\"']+", command):
        if "/" in word and re.fullmatch(r"python[\d.]*", Path(word).name):
            beside = folder / word
        elif "/" in word and Path(word).parent.name == "bin":
            beside = folder / Path(word).parent / "python"
        else:
            continue
        if beside.is_file():
            return str(beside)
    names = ("python3", "python") if re.search(r"\bpython3\b", command) else ("python", "python3")
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def _import_roots(mapped: Iterable[str]) -> list[str]:
    """An editable finder maps a package to its folder or file; the folder above it is what is put on the path."""
    return [str(Path(place).parent) for place in mapped]


def _leaks(folders: Iterable[str], repo: Path) -> tuple[str, ...]:
    """Folders inside the repository, but not those of a virtual environment that lies in it."""
    root = repo.resolve()
    inside: dict[str, None] = {}
    for folder in folders:
        place = Path(folder).resolve()
        if place.is_relative_to(root) and not _is_in_environment(place, root):
            inside[place.relative_to(root).as_posix()] = None
    return tuple(inside)


def _is_in_environment(place: Path, root: Path) -> bool:
    parents = [place, *place.parents]
    return any((folder / "pyvenv.cfg").is_file() for folder in parents if folder.is_relative_to(root))
