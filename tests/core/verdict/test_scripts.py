"""Which files a command runs or is configured with, a few levels down."""

from pathlib import Path

import pytest

from delegation.verdict.configured import configured_files
from delegation.verdict.scripts import called_files


def test_scripts_are_followed_through_scripts_make_and_other_folders(tmp_path: Path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "ci.sh").write_text("#!/bin/sh\ncd tools && ./look\nmake check\njust lint\n")
    (tmp_path / "tools" / "look").write_text("#!/usr/bin/env bash\npython tools/deeper.py\n")
    (tmp_path / "tools" / "deeper.py").touch()
    (tmp_path / "Makefile").write_text("include rules.inc $(GENERATED)\ncheck:\n\tpython cmp_all.py\n")
    (tmp_path / "cmp_all.py").touch()
    (tmp_path / "justfile").write_text("lint:\n    @./style\n")
    (tmp_path / "style").touch()
    called = called_files("sh ci.sh", tmp_path, ".")
    assert called.judging | called.unclear == {"ci.sh", "tools/look", "tools/deeper.py", "cmp_all.py", "style"} | {
        name for name in called.judging if name == "check"
    }
    assert called_files("make check", tmp_path, ".").judging == {"rules.inc", "check"}
    assert called_files("just lint", tmp_path, ".").unclear == {"style"}


def test_what_node_loads_before_the_tests_is_run_by_the_command(tmp_path: Path):
    for name in ("a.mjs", "b.cjs", "c.js", "conf.env", "main.js"):
        (tmp_path / name).touch()
    called = called_files("node --import=./a.mjs -r ./b.cjs --env-file=conf.env --test", tmp_path, ".")
    assert called.unclear == {"a.mjs", "b.cjs", "conf.env"}
    assert called_files("node --require ./c.js main.js", tmp_path, ".").unclear == {"c.js", "main.js"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jest.config.js", "module.exports = {\n  setupFiles: ['<rootDir>/support/env', './lib/x.js'],\n};\n"),
        ("jest.config.ts", 'export default { globalSetup: "./support/env.js" };\n'),
        ("package.json", '{"jest": {"reporters": ["default", ["./support/env.js", {"a": 1}]]}}'),
        ("package.json", '{"mocha": {"require": "support/env"}}'),
        (".mocharc.yml", "spec: test\nrequire:\n  - ./support/env.js\n"),
        (".mocharc.yaml", "require: support/env.js\n"),
        ("vitest.config.ts", "export default { test: { setupFiles: './support/env.js' } }\n"),
        ("package.json", '{"jest": {"transform": {"\\\\.js$": "<rootDir>/support/env.js"}}}'),
    ],
)
def test_files_that_a_javascript_runner_is_configured_with_judge(name: str, text: str, tmp_path: Path):
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "env.js").touch()
    (tmp_path / name).write_text(text)
    assert configured_files(tmp_path) == {"support/env.js"}
    assert called_files("npm test", tmp_path, ".").judging == {"support/env.js"}


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"jest": "../x"}', '{"jest": {"setupFiles": ["../../etc/passwd", "/etc/passwd"]}}']
)
def test_a_configuration_that_cannot_be_read_or_leads_out_names_nothing(text: str, tmp_path: Path):
    (tmp_path / "package.json").write_text(text)
    assert configured_files(tmp_path) == frozenset()


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("conftest.py", 'pytest_plugins = ["other", "support.helping"]\n', "pytest"),
        ("tests/conftest.py", 'pytest_plugins: list[str] = (\n    "support.helping",\n)\n', "pytest"),
        ("conftest.py", "pytest_plugins = 'support.helping'\n", "pytest"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-q -p support.helping"\n', "pytest"),
        ("pytest.ini", "[pytest]\naddopts = -p no:cacheprovider -psupport.helping\n", "pytest"),
        ("m.py", "", "python -m pytest -p support.helping -p no:randomly"),
    ],
)
def test_modules_that_pytest_is_told_to_load_judge(name: str, text: str, command: str, tmp_path: Path):
    for each in (name, "support/helping.py", "support/other.py"):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).touch()
    (tmp_path / name).write_text(text)
    assert called_files(command, tmp_path, ".").judging == {"support/helping.py"}
