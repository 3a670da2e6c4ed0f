"""Which verify commands a repository seems to want, read from its files alone: nothing is run."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from delegation.verdict.edits import is_test_path

_READ_BYTES = 1024 * 1024
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGETS = ("test", "tests", "check")
_SAYS_NOTHING = re.compile(r"no test specified|^\s*(?:true|:|exit 0)?\s*$")
_ENVIRONMENTS = (".venv", "venv")
_LOOKED_AT = 3  # folders down: enough for `src/app/tests`


@dataclass(frozen=True)
class Detected:
    """A command that would judge a change, and the file that suggests it."""

    command: str
    source: str


def detected(repo: Path) -> tuple[Detected, ...]:
    """The commands that fit, the likeliest first and none twice; empty where nothing suggests one.

    What the project itself wrote down (a make target, a package script) goes before what its tools imply. Only reads
    files of `repo` and follows no link out of it; a file that cannot be read or parsed says nothing. Never raises.
    """
    found: dict[str, Detected] = {}
    for look in _LOOKS:
        for item in look(repo):
            found.setdefault(item.command, item)
    return tuple(found.values())


def _make(repo: Path) -> Iterator[Detected]:
    name = next((name for name in _MAKEFILES if _text(repo, name)), None)
    if name is None:
        return
    targets = set(re.findall(r"^([\w-]+)\s*::?(?![:=])", _text(repo, name), re.MULTILINE))
    for target in _TARGETS:
        if target in targets:
            yield Detected(f"make {target}", f"{name}, target {target!r}")
            return


def _package(repo: Path) -> Iterator[Detected]:
    try:
        package = _mapping(json.loads(_text(repo, "package.json") or "{}"))
    except ValueError:
        return
    script = _mapping(package.get("scripts")).get("test")
    if isinstance(script, str) and not _SAYS_NOTHING.search(script):
        yield Detected(f"{_package_manager(repo, package)} test", "package.json, scripts.test")


def _package_manager(repo: Path, package: Mapping[str, object]) -> str:
    named = str(package.get("packageManager", "")).split("@")[0]
    if named in ("npm", "pnpm", "yarn", "bun"):
        return "bun run" if named == "bun" else named
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun run", "bun.lockb": "bun run"}
    return next((manager for lock, manager in locks.items() if (repo / lock).is_file()), "npm")


def _pytest(repo: Path) -> Iterator[Detected]:
    source = next((said for said in _pytest_sources(repo)), None)
    if source:
        yield Detected(f"{_python(repo)} -m pytest -q", source)


def _pytest_sources(repo: Path) -> Iterator[str]:
    """Files that configure pytest, ask for it, or are named as it finds them."""
    for name in ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"):
        if (repo / name).is_file():
            yield name
    project = _toml(repo, "pyproject.toml")
    if "pytest" in _mapping(project.get("tool")):
        yield "pyproject.toml, [tool.pytest]"
    for name, header in (("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")):
        if re.search(rf"^{re.escape(header)}", _text(repo, name), re.MULTILINE):
            yield f"{name}, {header}"
    asked = json.dumps(
        [project.get("project"), project.get("dependency-groups"), _mapping(project.get("tool")).get("poetry")]
    )
    if re.search(r"\bpytest\b", asked):
        yield "pyproject.toml, dependencies"
    for name in (
        "tox.ini",
        "requirements-dev.txt",
        "requirements-test.txt",
        "dev-requirements.txt",
        "requirements.txt",
    ):
        if re.search(r"^[^#\n]*\bpytest\b", _text(repo, name), re.MULTILINE):
            yield name
    if test := next(_python_tests(repo), None):
        text = _text(repo, test)
        if (
            re.search(r"^\s*(?:import pytest|from pytest|def test_|async def test_)", text, re.MULTILINE)
            and "unittest" not in text
        ):
            yield test


def _unittest(repo: Path) -> Iterator[Detected]:
    if next(_pytest_sources(repo), None):
        return
    for test in _python_tests(repo):
        if re.search(r"^\s*(?:import|from) unittest\b", _text(repo, test), re.MULTILINE):
            folder = Path(test).parts[0] if len(Path(test).parts) > 1 else "."
            where = (
                f" -s {folder} -t ." if folder != "." and (repo / folder / "__init__.py").is_file() else f" -s {folder}"
            )
            yield Detected(f"{_python(repo)} -m unittest discover{where}", test)
            return


def _tox(repo: Path) -> Iterator[Detected]:
    project = _mapping(_toml(repo, "pyproject.toml").get("tool"))
    if (repo / "tox.ini").is_file() and re.search(r"^\[(?:tox|testenv)", _text(repo, "tox.ini"), re.MULTILINE):
        yield Detected("tox -q", "tox.ini")
    elif "tox" in project:
        yield Detected("tox -q", "pyproject.toml, [tool.tox]")


def _cargo(repo: Path) -> Iterator[Detected]:
    manifest = _toml(repo, "Cargo.toml")
    if "workspace" in manifest:
        yield Detected("cargo test --workspace", "Cargo.toml, [workspace]")
    elif "package" in manifest:
        yield Detected("cargo test", "Cargo.toml")


def _go(repo: Path) -> Iterator[Detected]:
    if re.search(r"^module\s+\S", _text(repo, "go.mod"), re.MULTILINE):
        yield Detected("go test ./...", "go.mod")


def _node(repo: Path) -> Iterator[Detected]:
    """Node's own runner, where no script says otherwise."""
    if next(_package(repo), None) or not (repo / "package.json").is_file():
        return
    test = next((name for name in _tests(repo) if re.search(r"\.[cm]?js$", name)), None)
    if test and re.search(r"""['"]node:test['"]""", _text(repo, test)):
        yield Detected("node --test", test)


_LOOKS: tuple[Callable[[Path], Iterator[Detected]], ...] = (
    _make,
    _package,
    _pytest,
    _unittest,
    _cargo,
    _go,
    _node,
    _tox,
)


def _python(repo: Path) -> str:
    """The repository's own environment where it has one: verify runs in fresh checkouts, so by its absolute path."""
    for name in _ENVIRONMENTS:
        python = repo.absolute() / name / "bin" / "python"
        if python.exists() and re.fullmatch(r"[\w./+-]+", str(python)):
            return str(python)
    return "uv run python" if (repo / "uv.lock").is_file() else "python"


def _python_tests(repo: Path) -> Iterator[str]:
    return (name for name in _tests(repo) if name.endswith(".py"))


def _tests(repo: Path) -> Iterator[str]:
    """Files named as runners find them, near the top first."""
    level = [repo]
    for _ in range(_LOOKED_AT):
        below: list[Path] = []
        for folder in level:
            try:
                entries = sorted(folder.iterdir())
            except OSError:
                continue
            for entry in entries:
                if (
                    entry.is_symlink()
                    or entry.name.startswith(".")
                    or entry.name in (*_ENVIRONMENTS, "node_modules", "target")
                ):
                    continue
                if entry.is_dir():
                    below.append(entry)
                elif is_test_path(entry.name, by_name=True):
                    yield entry.relative_to(repo).as_posix()
        level = below


def _toml(repo: Path, name: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(_text(repo, name))
    except tomllib.TOMLDecodeError:
        return {}


def _mapping(value: object) -> Mapping[str, object]:
    return cast(Mapping[str, object], value) if isinstance(value, dict) else {}


def _text(repo: Path, name: str) -> str:
    path = repo / name
    try:
        if path.is_file() and path.resolve().is_relative_to(repo.resolve()) and path.stat().st_size <= _READ_BYTES:
            return path.read_text(encoding="utf-8-sig", errors="replace")
    except (OSError, ValueError, RuntimeError):
        pass
    return ""
