"""Recognising runners, and reading the names of tests from what they leave."""

import json
import shlex
from pathlib import Path

import pytest

from delegation.verdict.console import cargo_results, go_results, jest_results, unittest_results
from delegation.verdict.junit import node_results, pytest_results
from delegation.verdict.runners import instrument, named_tests, narrowed, runners_of


@pytest.mark.parametrize(
    ("command", "runners"),
    [
        ("pytest -q", {"pytest"}),
        ("python -m pytest tests/test_a.py::test_x", {"pytest"}),
        ("uv run pytest", {"pytest"}),
        (".venv/bin/pytest", {"pytest"}),
        ("pip install pytest && python -m unittest", {"unittest"}),
        ("node --test", {"node"}),
        ("node --import tsx --test src/", {"node"}),
        ("npx jest", {"jest"}),
        ("node node_modules/jest/bin/jest.js", {"jest"}),
        ("go test ./...", {"go"}),
        ("cargo test --workspace", {"cargo"}),
        ("ruff check pytest_plugin", set()),
        ("sh -c 'pytest -q'", {"pytest"}),
    ],
)
def test_the_runner_is_seen_in_the_command(command: str, runners: set[str], tmp_path: Path):
    assert runners_of(command, tmp_path) == runners


def test_the_runner_is_seen_behind_make_npm_and_scripts(tmp_path: Path):
    (tmp_path / "Makefile").write_text("test:\n\tgo test ./...\n")
    (tmp_path / "package.json").write_text('{"scripts": {"test": "node --test"}}')
    (tmp_path / "check.sh").write_text("python -m pytest -q\n")
    assert runners_of("make test", tmp_path) == {"go"}
    assert runners_of("npm test", tmp_path) == {"node"}
    assert runners_of("sh check.sh", tmp_path) == {"pytest"}


def test_pytest_is_told_by_environment_alone(tmp_path: Path):
    reports = tmp_path / "a folder"
    prepared = instrument("pytest -q", folder=tmp_path, reports=reports)
    assert prepared.command == "pytest -q"
    assert f"--junitxml={reports / 'pytest.xml'}" in shlex.split(prepared.env["PYTEST_ADDOPTS"])


def test_unittest_is_made_to_name_its_tests(tmp_path: Path):
    def command(text: str) -> str:
        return instrument(text, folder=tmp_path, reports=tmp_path).command

    assert command("python -m unittest discover -s tests") == "python -m unittest discover -v -s tests"
    assert command("python -m unittest && echo ok") == "python -m unittest -v && echo ok"
    assert command("python -m unittest -q") == "python -m unittest -q"


def test_node_before_version_20_is_left_alone(tmp_path: Path):
    assert "NODE_OPTIONS" not in instrument("node --test", folder=tmp_path, reports=tmp_path, node_major=18).env
    assert "NODE_OPTIONS" in instrument("node --test", folder=tmp_path, reports=tmp_path, node_major=20).env


def test_jest_is_asked_for_a_report(tmp_path: Path):
    (tmp_path / "package.json").write_text('{"scripts": {"test": "jest"}}')
    for command, expected in (("npx jest src", "npx jest --json --outputFile="), ("npm test", "npm test -- --json")):
        assert instrument(command, folder=tmp_path, reports=tmp_path).command.startswith(expected)


CASE = '<testsuites><testsuite><testcase classname="t" name="{}">{}</testcase></testsuite></testsuites>'


def test_several_pytest_runs_in_one_command_have_a_report_each(tmp_path: Path):
    command = "pip install pytest && python -m pytest a && pytest b; pytest a"
    several = instrument(command, folder=tmp_path, reports=tmp_path)
    assert several.command == (
        f"pip install pytest && python -m pytest --junitxml={tmp_path}/pytest-0.xml a "
        f"&& pytest --junitxml={tmp_path}/pytest-1.xml b; pytest --junitxml={tmp_path}/pytest-2.xml a"
    )
    (tmp_path / "pytest-0.xml").write_text(CASE.format("a", "<failure/>"))
    (tmp_path / "pytest-1.xml").write_text(CASE.format("b", ""))
    (tmp_path / "pytest-2.xml").write_text(CASE.format("a", ""))
    output = "1 failed in 0.01s\n1 passed in 0.01s\n1 passed in 0.01s\n"
    assert named_tests(several, folder=tmp_path, output=output) == {"t::a": "failed", "t::b": "passed"}


def test_several_pytest_runs_behind_make_give_no_ids(tmp_path: Path):
    (tmp_path / "pytest.xml").write_text(CASE.format("a", ""))
    once = instrument("make test", folder=tmp_path, reports=tmp_path)
    assert named_tests(once, folder=tmp_path, output="1 passed in 0.01s\n") == {"t::a": "passed"}
    behind_make = "1 passed in 0.01s\n=== 1 failed, 2 passed in 1.20s ===\n"
    assert named_tests(once, folder=tmp_path, output=behind_make) is None


def test_some_tests_alone_are_chosen_as_the_runner_can(tmp_path: Path):
    names = frozenset({"tests.test_m.T.test_a", "tests.test_m.T.test_b"})
    some = narrowed(instrument("python -m unittest && echo ok", folder=tmp_path, reports=tmp_path), names)
    assert some is not None
    assert some.command == ("python -m unittest -k tests.test_m.T.test_a -k tests.test_m.T.test_b -v && echo ok")
    some = narrowed(instrument("pytest -q", folder=tmp_path, reports=tmp_path), frozenset({"test_a.py::test_a[x y]"}))
    assert some is not None
    assert some.env["PYTEST_ADDOPTS"].endswith(" --last-failed")
    memory = tmp_path / "pytest_cache" / "v" / "cache" / "lastfailed"
    assert json.loads(memory.read_text()) == {"test_a.py::test_a[x y]": True}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("node --test", {"one"}),
        ("make test", {"tests.test_m.T.test_a"}),
        ("pytest -q", {"test_a.py"}),
        ("pytest -q", set()),
        ("pytest -q --lf", {"test_a.py::test_a"}),
        ("pytest -q -p no:cacheprovider", {"test_a.py::test_a"}),
        ("pytest a && pytest b", {"test_a.py::test_a"}),
        ("python -m unittest a && python -m unittest b", {"a.T.test_a"}),
        ("python -m unittest", {"a.T.test_a (x='$(id)')"}),
    ],
)
def test_where_the_runner_cannot_choose_the_whole_is_run_again(tmp_path: Path, command: str, names: set[str]):
    assert narrowed(instrument(command, folder=tmp_path, reports=tmp_path), frozenset(names)) is None


def test_pytest_ids_are_those_pytest_prints(tmp_path: Path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_b.py").touch()
    report = tmp_path / "r.xml"
    report.write_text(
        """<testsuites><testsuite name="pytest">
        <testcase classname="tests.test_a" name="test_x[a.b]" file="tests/test_a.py" line="1"/>
        <testcase classname="tests.test_a.TestC.TestD" name="test_y" file="tests/test_a.py"><failure/></testcase>
        <testcase classname="tests.test_b.TestE" name="test_inherited" file="tests/base.py"/>
        <testcase classname="" name="tests.test_b"><error message="collection failure"/></testcase>
        <testcase classname="tests.test_a" name="test_z" file="tests/test_a.py"><skipped/></testcase>
        <testcase classname="tests.test_a" name="test_torn" file="tests/test_a.py"/>
        <testcase classname="tests.test_a" name="test_torn" file="tests/test_a.py"><error/></testcase>
        </testsuite></testsuites>"""
    )
    assert pytest_results(report, tmp_path) == {
        "tests/test_a.py::test_x[a.b]": "passed",
        "tests/test_a.py::TestC::TestD::test_y": "failed",
        "tests/test_b.py::TestE::test_inherited": "passed",
        "tests/test_b.py": "error",
        "tests/test_a.py::test_z": "skipped",
        "tests/test_a.py::test_torn": "error",
    }


@pytest.mark.parametrize(
    "content", ["", "<testsuites>", "not xml", "<other/>", '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY']
)
def test_an_unreadable_report_is_no_report(content: str, tmp_path: Path):
    (tmp_path / "r.xml").write_text(content)
    assert pytest_results(tmp_path / "r.xml", tmp_path) is None


def test_node_suites_are_part_of_the_name(tmp_path: Path):
    report = tmp_path / "r.xml"
    report.write_text(
        f"""<testsuites><testcase name="one" classname="test"/>
        <testsuite name="group"><testcase name="two" classname="test"><failure/></testcase></testsuite>
        <testcase name="{tmp_path}/b.test.js" classname="test"><failure/></testcase></testsuites>"""
    )
    assert node_results(report, tmp_path) == {"one": "passed", "group > two": "failed", "b.test.js": "failed"}


UNITTEST = """test_bad (tests.test_a.A.test_bad)
Doc line ... FAIL
test_ok (tests.test_a.A.test_ok) ... noise
ok
test_old (tests.test_a.A) ... ok
test_skip (tests.test_a.A.test_skip) ... skipped 'no'
test_sub (tests.test_a.A.test_sub) ...
  test_sub (tests.test_a.A.test_sub) (i=1) ... FAIL
tests.test_b (unittest.loader._FailedTest.tests.test_b) ... ERROR

======================================================================
ERROR: tests.test_b (unittest.loader._FailedTest.tests.test_b)
----------------------------------------------------------------------
======================================================================
FAIL: test_sub (tests.test_a.A.test_sub) (i=1)
----------------------------------------------------------------------
Ran 6 tests in 0.001s
"""


def test_unittest_names_are_read_with_docstrings_noise_and_subtests():
    assert unittest_results(UNITTEST) == {
        "tests.test_a.A.test_bad": "failed",
        "tests.test_a.A.test_ok": "passed",
        "tests.test_a.A.test_old": "passed",
        "tests.test_a.A.test_skip": "skipped",
        "tests.test_a.A.test_sub": "failed",
        "tests.test_b": "error",
    }


def test_unittest_without_names_gives_no_ids():
    assert unittest_results("..F\nFAIL: test_x (t.A.test_x)\nRan 3 tests in 0.001s\n") is None
    assert unittest_results("no such thing") is None


def test_a_quiet_unittest_run_gives_no_ids_even_when_every_test_fails():
    assert unittest_results("F\nFAIL: test_x (t.A.test_x)\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n") is None


def test_go_names_carry_their_package():
    output = """=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    b_test.go:5: no
--- FAIL: TestB (0.00s)
    --- FAIL: TestB/case_1 (0.00s)
FAIL
FAIL\texample.org/x\t0.002s
--- SKIP: TestA (0.00s)
ok  \texample.org/y\t0.001s
FAIL\texample.org/z [build failed]
?   \texample.org/w\t[no test files]
"""
    assert go_results(output) == {
        "example.org/x.TestA": "passed",
        "example.org/x.TestB": "failed",
        "example.org/x.TestB/case_1": "failed",
        "example.org/y.TestA": "skipped",
        "example.org/z": "error",
    }
    assert go_results("go: no modules") is None


def test_cargo_names_carry_their_binary():
    output = """     Running unittests src/lib.rs (target/debug/deps/cr-f7)
running 3 tests
test tests::ig ... ignored
test tests::ok ... ok
test tests::bad ... FAILED
     Running tests/it.rs (target/debug/deps/it-c4)
test integ ... ok
   Doc-tests cr
test src/lib.rs - f (line 1) ... ok
"""
    assert cargo_results(output) == {
        "src/lib.rs::tests::ig": "skipped",
        "src/lib.rs::tests::ok": "passed",
        "src/lib.rs::tests::bad": "failed",
        "tests/it.rs::integ": "passed",
        "doc cr::src/lib.rs - f (line 1)": "passed",
    }
    assert cargo_results("error[E0425]: cannot find value\n") is None


def test_jest_names_are_file_suite_and_title(tmp_path: Path):
    report = tmp_path / "jest.json"
    report.write_text(
        f"""{{"testResults": [
        {{"name": "{tmp_path}/a.test.js", "status": "failed", "assertionResults": [
            {{"ancestorTitles": ["sum"], "title": "adds", "status": "passed"}},
            {{"ancestorTitles": [], "title": "fails", "status": "failed"}},
            {{"ancestorTitles": [], "title": "later", "status": "todo"}}]}},
        {{"name": "{tmp_path}/b.test.js", "status": "failed", "assertionResults": []}}]}}"""
    )
    assert jest_results(report, tmp_path) == {
        "a.test.js > sum > adds": "passed",
        "a.test.js > fails": "failed",
        "a.test.js > later": "skipped",
        "b.test.js": "error",
    }
