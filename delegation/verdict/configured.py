"""Files that the configuration of a runner names as its own: set-up files, environments, reporters, plugins."""

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_CONFIGURATIONS = ("jest.config.*", "vitest.config.*", "vite.config.*", ".mocharc*", "ava.config.*", "karma.conf*")
_TABLES = ("jest", "mocha", "ava", "vitest", "babel")
_KEYS = (
    "setupFiles|setupFilesAfterEnv|globalSetup|globalTeardown|testEnvironment|testRunner|runner|reporters|reporter"
    "|resolver|transform|snapshotSerializers|snapshotResolver|testSequencer|testResultsProcessor|preset|projects"
    "|require|import|loader|file|plugins"
)
_VALUES = re.compile(
    rf"""["']?\b(?:{_KEYS})["']?\s*[:=]\s*(\[[^\]]*\]|\{{[^}}]*\}}|"[^"\n]*"|'[^'\n]*'|[^\s"'\[{{][^\n,]*)"""
)
_LISTED = re.compile(rf"^(?:{_KEYS}):[ \t]*\n((?:[ \t]*-[^\n]*\n?)+)", re.MULTILINE)
_ENDINGS = ("", ".js", ".cjs", ".mjs", ".ts", ".json", "/index.js", "/jest-preset.js", "/jest-preset.json")
_PYTEST_FILES = ("pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini")
_PLUGINS = re.compile(r"^pytest_plugins\b[^=\n]*=\s*([\[(][^\])]*[\])]|[^\n]+)", re.MULTILINE)
_MOST_BYTES = 256 * 1024


def configured_files(folder: Path, command: str = "") -> frozenset[str]:
    """Paths below `folder`, of files that are there. What cannot be read names nothing. Never raises."""
    scripts = (found for text in _texts(folder) for named in _named(text) for found in _there(folder, named))
    return frozenset((*scripts, *_plugins(folder, command)))


def _plugins(folder: Path, command: str) -> Iterator[str]:
    """Modules that pytest loads because a conftest, its options or the command say so."""
    options = (command, *(text_of(folder / name) for name in _PYTEST_FILES))
    named = [name for text in options for name in re.findall(r"(?<![\w-])-p[ =]?([\w.]+)", text)]
    for conftest in ("conftest.py", "tests/conftest.py", "test/conftest.py"):
        for value in _PLUGINS.findall(text_of(folder / conftest)):
            named += re.findall(r"""["']([\w.]+)["']""", value)
    for module in named:
        path = module.replace(".", "/")
        for root in ("", "src/", "tests/"):
            yield from (name for name in (f"{root}{path}.py", f"{root}{path}/__init__.py") if (folder / name).is_file())


def _texts(folder: Path) -> Iterator[str]:
    for pattern in _CONFIGURATIONS:
        yield from (text_of(path) for path in sorted(folder.glob(pattern)))
    try:
        package = json.loads(text_of(folder / "package.json") or "{}")
        yield from (json.dumps(package[name]) for name in _TABLES if isinstance(package.get(name), dict))
    except (ValueError, AttributeError):
        return


def _named(text: str) -> Iterator[str]:
    for value in (*_VALUES.findall(text), *_LISTED.findall(text)):
        quoted = re.findall(r"""["']([^"'\n]+)["']""", value)
        yield from quoted or re.findall(r"[\w./<>@-]+", value)


def _there(folder: Path, named: str) -> Iterator[str]:
    name = re.sub(r"^(?:<rootDir>/|\./)+", "", named)
    if not name or name.startswith(("/", "~")) or ".." in PurePosixPath(name).parts:
        return
    for ending in _ENDINGS:
        try:
            if (folder / f"{name}{ending}").is_file():
                yield PurePosixPath(f"{name}{ending}").as_posix()
                return
        except (OSError, ValueError):
            return


def text_of(path: Path) -> str:
    """Of a small file, empty where it cannot be read. Never raises."""
    try:
        if path.is_file() and path.stat().st_size <= _MOST_BYTES:
            return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        pass
    return ""
