"""Tests that must fail are written in the language of the tests they stand beside, and only where these are."""

from pathlib import Path

import pytest

from delegation.receipt import CommandRun, TestStatus
from delegation.verdict.canaries import Canaries
from delegation.verdict.runners import chosen_by_word, instrument


def run_of(tests: dict[str, TestStatus]) -> CommandRun:
    return CommandRun(verdict="failed", exit_code=1, seconds=1.0, tests=tests, output_tail="")


def test_canaries_go_into_the_files_of_the_tests_under_a_name_of_their_own(tmp_path: Path):
    for name in ("sub/tests/test_a.py", "sub/tests/test_b.py", "sub/tests/test_c.py", "sub/m.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    tests = frozenset({"tests.test_a.T.test_x", "sub/tests/test_b.py::test_y", "../../x.py::test", "one", "m.T.test"})
    canaries = Canaries(tests)
    assert canaries.plant(tmp_path, tmp_path / "sub")
    changed = [path.name for path in sorted(tmp_path.rglob("*.py")) if canaries.word in path.read_text()]
    assert changed == ["test_a.py", "test_b.py"]
    assert Canaries(tests).word != canaries.word
    assert not Canaries(frozenset({"one"})).plant(tmp_path, tmp_path)


def test_every_canary_that_ran_must_have_failed():
    canaries = Canaries(frozenset())
    one, two = f"t::test_canary_{canaries.word}", f"t::test_canary_{canaries.word}_equal"
    assert canaries.all_failed(run_of({one: "failed", two: "error", "t::test_a": "passed"}))
    assert not canaries.all_failed(run_of({one: "failed", two: "passed"}))
    assert not canaries.all_failed(run_of({"t::test_a": "failed"}))
    assert canaries.failed(run_of({one: "failed", two: "passed"})) == {one}


LANGUAGES = {
    "node": ("a.test.js", "require('node:test');\n", "adds", "import('node:test')"),
    "node module": ("lib/a.test.mjs", "import test from 'node:test';\n", "suite > adds", "import('node:assert')"),
    "jest": ("a.test.js", "test('x', () => {});\n", "a.test.js > adds", "expect(1).toBe(2)"),
    "jest in TypeScript": ("src/a.spec.ts", "\n", "src/a.spec.ts > adds", "expect([1]).toEqual([2])"),
    "go": ("pkg/a_test.go", 'package m\n\nimport "testing"\n', "example.org/m/pkg.TestA", "t.Fatal("),
    "go imports": ("a_test.go", 'import (\n\t"fmt"\n\t"testing"\n)\n', "example.org/m.TestA/x", "t.Errorf("),
    "rust source": ("src/lib.rs", "#[cfg(test)]\n", "src/lib.rs::tests::one", "assert_eq!(1, 2)"),
    "rust test": ("tests/it.rs", "#[test]\n", "tests/it.rs::one", "#[cfg(test)]\nmod canary_"),
}


@pytest.mark.parametrize(("name", "text", "test", "line"), LANGUAGES.values(), ids=LANGUAGES)
def test_the_canary_speaks_the_language_of_the_tests(name: str, text: str, test: str, line: str, tmp_path: Path):
    for each, content in ((name, text), ("index.js", "x"), ("m.go", "x"), ("src/other.rs", "x")):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(content)
    canaries = Canaries(frozenset({test}))
    assert canaries.plant(tmp_path, tmp_path)
    changed = [
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*") if canaries.word in path.read_text()
    ]
    assert changed == [name]
    assert line in (tmp_path / name).read_text()
    assert (tmp_path / name).read_text().startswith(text)


def test_a_go_file_that_does_not_know_the_package_testing_is_left_alone(tmp_path: Path):
    (tmp_path / "a_test.go").write_text('package m\n\nimport t "testing"\n')
    assert not Canaries(frozenset({"example.org/m.TestA"})).plant(tmp_path, tmp_path)


def test_canaries_alone_are_run_as_the_runner_can(tmp_path: Path):
    def chosen(command: str):
        return chosen_by_word(instrument(command, folder=tmp_path, reports=tmp_path), "abc")

    assert chosen("pytest -q").env["PYTEST_ADDOPTS"].endswith(" -k abc")
    assert chosen("python -m unittest").command == "python -m unittest -k abc -v"
    assert chosen("go test ./...").env["GOFLAGS"] == "-v -run=abc"
    assert chosen("jest").command == f"jest -t abc --json --outputFile={tmp_path}/jest.json"
    assert chosen("cargo test").command == "cargo test"
