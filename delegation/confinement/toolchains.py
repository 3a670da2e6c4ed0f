"""Which folders outside the system the programs on PATH need: interpreters, shims, what symlinks point to."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SYSTEM = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix", "/System"))
"""Folders that every program may read; what lies in them needs no naming."""

_BIN_NAMES = {"bin", "sbin", "shims", "condabin", "Scripts"}
_SIGNS_OF_AN_INSTALLATION = ("lib", "lib64", "libexec", "pyvenv.cfg", "versions", "installs", "toolchains")
_SHARED_PREFIXES = {".local", ".cargo", ".config"}
"""Folders that hold a `bin` beside other people's secrets: only the programs themselves are shown."""

_FOLDERS_OF_HOMES = (Path("/home"), Path("/Users"))
_TOO_WIDE = {"root", "home", "Users", "tmp", "var", "etc", "run", "srv", "mnt", "media", "proc", "sys", "dev"}
_MOST_PROGRAMS = 3000
_LONGEST_CHAIN = 16
_TOOLCHAIN_VARIABLES = ("PYENV_ROOT", "RUSTUP_HOME", "ASDF_DATA_DIR", "VOLTA_HOME", "JAVA_HOME", "GOROOT")


def toolchain_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Folders (and single files) to show read-only, none below another and none in the system.

    For each folder of PATH: itself, its installation when it belongs to one (a virtual environment, pyenv, nvm, ...),
    and what its symlinks lead to, each step of the way. Our own interpreter too, since commands name it.
    """
    home = Path.home()
    found: list[Path] = [Path(sys.prefix), Path(sys.base_prefix)]
    for entry in _entries(env):
        found += [_installation(entry, home), _installation(entry.resolve(), home)]
        for program in _programs(entry):
            found += [_installation_of_file(step, home) for step in _steps(program)]
    found += [Path(env[name]) for name in _TOOLCHAIN_VARIABLES if name in env]
    return _topmost(path for path in found if path.exists() and not _too_wide(path, home))


def _entries(env: Mapping[str, str]) -> Iterator[Path]:
    for text in dict.fromkeys(env.get("PATH", "").split(os.pathsep)):
        entry = Path(text)
        if entry.is_absolute() and entry.is_dir() and not _in_system(entry.resolve()):
            yield entry


def _programs(folder: Path) -> list[Path]:
    with os.scandir(folder) as listing:
        links = [Path(item.path) for item, _ in zip(listing, range(_MOST_PROGRAMS), strict=False) if item.is_symlink()]
    return sorted(links)


def _steps(link: Path) -> Iterator[Path]:
    """Where a symlink leads, step by step as written, and in the end resolved."""
    step = link
    for _ in range(_LONGEST_CHAIN):
        if not step.is_symlink():
            break
        step = Path(os.path.normpath(step.parent / step.readlink()))
        yield step
    yield Path(os.path.realpath(step))  # unlike resolve(), no error for a loop


def _installation(folder: Path, home: Path) -> Path:
    """The folder to show so that the programs in `folder` find their libraries."""
    prefix = folder.parent
    if folder.name not in _BIN_NAMES or prefix.name in _SHARED_PREFIXES or _too_wide(prefix, home):
        return folder
    return prefix


def _installation_of_file(program: Path, home: Path) -> Path:
    """A program alone, or its whole installation where the folders around it say that it is one."""
    prefix = _installation(program.parent, home)
    if prefix != program.parent and any((prefix / sign).exists() for sign in _SIGNS_OF_AN_INSTALLATION):
        return prefix
    modules = next((parent for parent in program.parents if parent.name == "node_modules"), None)
    return modules if modules is not None else program


def _too_wide(path: Path, home: Path) -> bool:
    """The root, a home, a folder of homes, or one like /tmp: never shown because a program lies there."""
    is_top = len(path.parts) <= 2 and path.name in _TOO_WIDE
    return path == Path(path.anchor) or home.is_relative_to(path) or is_top or path.parent in _FOLDERS_OF_HOMES


def _topmost(paths: Iterator[Path]) -> tuple[Path, ...]:
    kept: list[Path] = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: len(path.parts)):
        if not _in_system(path) and not any(path.is_relative_to(above) for above in kept):
            kept.append(path)
    return tuple(kept)


def _in_system(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in SYSTEM)
