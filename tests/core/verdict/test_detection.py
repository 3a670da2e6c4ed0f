"""Verify commands read from a repository's files, without running any of them."""

import json
import os
from pathlib import Path

import pytest

from delegation.verdict.detection import Detected, detected


def repository(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


CASES = {
    "pytest by its table": (
        {"pyproject.toml": "[tool.pytest.ini_options]\n"},
        "python -m pytest -q",
        "pyproject.toml, [tool.pytest]",
    ),
    "pytest by its file": ({"pytest.ini": "[pytest]\n"}, "python -m pytest -q", "pytest.ini"),
    "pytest by setup.cfg": ({"setup.cfg": "[tool:pytest]\n"}, "python -m pytest -q", "setup.cfg, [tool:pytest]"),
    "pytest in tox.ini": ({"tox.ini": "[pytest]\naddopts = -q\n"}, "python -m pytest -q", "tox.ini, [pytest]"),
    "pytest by a dependency group": (
        {"pyproject.toml": '[dependency-groups]\ndev = ["pytest>=8"]\n'},
        "python -m pytest -q",
        "pyproject.toml, dependencies",
    ),
    "pytest by requirements": (
        {"requirements-dev.txt": "# tools\npytest==8.1\n"},
        "python -m pytest -q",
        "requirements-dev.txt",
    ),
    "pytest by a test": ({"tests/test_a.py": "def test_a():\n    pass\n"}, "python -m pytest -q", "tests/test_a.py"),
    "pytest under uv": ({"pytest.ini": "", "uv.lock": ""}, "uv run python -m pytest -q", "pytest.ini"),
    "unittest": (
        {"tests/__init__.py": "", "tests/test_a.py": "import unittest\n"},
        "python -m unittest discover -s tests -t .",
        "tests/test_a.py",
    ),
    "unittest without a package": (
        {"tests/test_a.py": "import unittest\n"},
        "python -m unittest discover -s tests",
        "tests/test_a.py",
    ),
    "tox": ({"tox.ini": "[tox]\nenvlist = py311\n"}, "tox -q", "tox.ini"),
    "npm": ({"package.json": '{"scripts": {"test": "node --test"}}'}, "npm test", "package.json, scripts.test"),
    "pnpm": (
        {"package.json": '{"scripts": {"test": "vitest"}}', "pnpm-lock.yaml": ""},
        "pnpm test",
        "package.json, scripts.test",
    ),
    "yarn by name": (
        {"package.json": '{"packageManager": "yarn@4.1", "scripts": {"test": "jest"}}'},
        "yarn test",
        "package.json, scripts.test",
    ),
    "node's own runner": ({"package.json": "{}", "a.test.js": "require('node:test')\n"}, "node --test", "a.test.js"),
    "make": ({"Makefile": "CC := cc\n\ntest: build\n\tsh t.sh\n"}, "make test", "Makefile, target 'test'"),
    "make check": ({"GNUmakefile": "check:\n\ttrue\n"}, "make check", "GNUmakefile, target 'check'"),
    "cargo": ({"Cargo.toml": '[package]\nname = "a"\n'}, "cargo test", "Cargo.toml"),
    "a cargo workspace": (
        {"Cargo.toml": '[workspace]\nmembers = ["a"]\n'},
        "cargo test --workspace",
        "Cargo.toml, [workspace]",
    ),
    "go": ({"go.mod": "module example.org/a\n\ngo 1.22\n"}, "go test ./...", "go.mod"),
}


@pytest.mark.parametrize(("files", "command", "source"), CASES.values(), ids=CASES)
def test_the_command_is_read_from_the_files(tmp_path: Path, files: dict[str, str], command: str, source: str):
    assert detected(repository(tmp_path, files))[0] == Detected(command, source)


NOTHING = {
    "an empty folder": {},
    "a script that says there are no tests": {
        "package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
    },
    "a script that does nothing": {"package.json": '{"scripts": {"test": "true"}}'},
    "a makefile without such a target": {"Makefile": "test_dir := x\nall:\n\ttrue\n"},
    "a variable named test": {"Makefile": "test := x\ntest ::= y\n"},
    "files that do not parse": {"package.json": "{", "pyproject.toml": "[[[", "Cargo.toml": "=", "go.mod": "\0"},
    "json that is no object": {"package.json": "[]", "pyproject.toml": "tool = 3\n"},
    "a project without tests": {"pyproject.toml": '[project]\nname = "a"\n', "a.py": "x = 1\n"},
}


@pytest.mark.parametrize("files", NOTHING.values(), ids=NOTHING)
def test_nothing_is_proposed_where_nothing_speaks_for_it(tmp_path: Path, files: dict[str, str]):
    assert detected(repository(tmp_path, files)) == ()


def test_a_folder_that_is_not_there_gives_nothing(tmp_path: Path):
    assert detected(tmp_path / "gone") == ()


def test_what_the_project_wrote_down_comes_before_what_its_tools_imply(tmp_path: Path):
    files = {
        "Makefile": "test:\n\tpytest\n",
        "pytest.ini": "",
        "Cargo.toml": "[package]\n",
        "package.json": '{"scripts": {"test": "jest"}}',
    }
    assert [item.command for item in detected(repository(tmp_path, files))] == [
        "make test",
        "npm test",
        "python -m pytest -q",
        "cargo test",
    ]


def test_the_repositorys_own_environment_is_named_by_its_whole_path(tmp_path: Path):
    repository(tmp_path, {"pytest.ini": "", ".venv/bin/python": ""})
    assert detected(tmp_path)[0].command == f"{tmp_path}/.venv/bin/python -m pytest -q"


def test_nothing_outside_the_repository_is_read(tmp_path: Path):
    outside = repository(tmp_path / "outside", {"Makefile": "test:\n", "tests/test_a.py": "def test_a():\n    pass\n"})
    inside = repository(tmp_path / "inside", {"README": ""})
    (inside / "Makefile").symlink_to(outside / "Makefile")
    (inside / "tests").symlink_to(outside / "tests")
    assert detected(inside) == ()


def test_nothing_is_run_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    repository(tmp_path, {"Makefile": "$(shell touch made)\ntest:\n\ttouch made\n", "setup.py": "open('made', 'w')\n"})
    monkeypatch.setattr(os, "posix_spawn", None)
    monkeypatch.setattr(os, "fork", None)
    monkeypatch.setattr("subprocess.Popen", None)
    assert detected(tmp_path)[0].command == "make test"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "setup.py"]
