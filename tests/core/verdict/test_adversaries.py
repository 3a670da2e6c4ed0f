"""A change that touches what judges it cannot turn red into passed, and an honest one is not refuted for it."""

import sys

import pytest

PYTEST = f"{sys.executable} -m pytest -q -p no:hypothesispytest -p no:anyio"
UNITTEST = f"{sys.executable} -m unittest discover -s tests -t ."
FAULTY = {"m.py": "def add(a, b):\n    return a - b\n\n\ndef one():\n    return 1\n"}
MENDED = {"m.py": "def add(a, b):\n    return a + b\n\n\ndef one():\n    return 1\n"}
TEST_M = """import unittest
import m


class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(m.add(1, 2), 3)

    def test_one(self):
        self.assertEqual(m.one(), 1)
"""
OTHER = "import unittest\n\n\nclass O(unittest.TestCase):\n    def test_o(self):\n        pass\n"
TESTS = {"tests/__init__.py": "", "tests/test_m.py": TEST_M}
ADD = "tests.test_m.T.test_add"

HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    report = outcome.get_result()\n    report.outcome = 'passed'\n"
)
FORGED_REPORT = (
    "import os, re, sys\n"
    "path = re.search(r'--junitxml=(\\S+)', os.environ['PYTEST_ADDOPTS'])[1].strip(chr(39))\n"
    "open(path, 'w').write('<testsuites><testsuite>'\n"
    '    \'<testcase classname="tests.test_m.T" name="test_add" file="tests/test_m.py"/>\'\n'
    '    \'<testcase classname="tests.test_m.T" name="test_one" file="tests/test_m.py"/></testsuite></testsuites>\')\n'
    "os._exit(0)\n"
)


@pytest.fixture(scope="module")
def faulty(shared):
    """One test of two fails for a fault in `m.py`."""
    shared.commit(FAULTY | TESTS)
    return shared


PLANTED = {
    "a conftest that turns reports green": {"conftest.py": HOOK},
    "a conftest below the tests": {"tests/conftest.py": HOOK},
    "a pytest module that exits": {"pytest.py": "raise SystemExit(0)\n"},
    "a pytest module with a forged report": {"pytest.py": FORGED_REPORT},
    "a pytest package": {"pytest/__init__.py": "", "pytest/__main__.py": FORGED_REPORT},
    "a standard library module": {"shlex.py": FORGED_REPORT},
    "an option in pytest.ini": {"pytest.ini": "[pytest]\naddopts = --deselect tests/test_m.py::T::test_add\n"},
    "an option in pyproject.toml": {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--deselect tests/test_m.py::T::test_add'\n"
    },
    "an option in setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = --deselect tests/test_m.py::T::test_add\n"},
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_planted_files_cannot_turn_red_into_passed(faulty, planted):
    answer = faulty.verify({"m.py": FAULTY["m.py"] + "# no\n"} | planted, PYTEST)
    assert answer.verdict == "failed"
    assert "tests_edited" in answer.flags


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.py"])
def test_a_planted_start_up_file_cannot_turn_red_into_passed(faulty, name: str):
    hook = "import sys\nif 'unittest' in sys.orig_argv:\n    import m\n    m.add = lambda a, b: a + b\n"
    answer = faulty.verify({name: hook}, f"PYTHONPATH=. {UNITTEST}")
    assert answer.verdict == "failed"
    assert "tests_edited" in answer.flags


EDITED = {
    "the test asserts nothing": {"tests/test_m.py": TEST_M.replace("self.assertEqual(m.add(1, 2), 3)", "pass")},
    "the test is skipped": {
        "tests/test_m.py": TEST_M.replace("    def test_add", "    @unittest.skip('later')\n    def test_add")
    },
    "the test is gone": {
        "tests/test_m.py": TEST_M.split("    def test_add")[0] + "    def test_one(self):\n        pass\n"
    },
    "the file is gone": {
        "tests/test_m.py": None,
        "tests/test_other.py": OTHER,
    },
    "all tests are gone": {"tests/test_m.py": None, "tests/__init__.py": None},
    "the file is moved away": {"tests/test_m.py": None, "tests/disabled_m.py": TEST_M},
}
KEPT = ("the test asserts nothing", "the test is skipped", "the test is gone", "the file is gone")


@pytest.mark.parametrize("edit", EDITED.values(), ids=EDITED)
def test_edited_tests_cannot_turn_red_into_passed(faulty, edit):
    answer = faulty.verify(edit, UNITTEST)
    assert answer.verdict == ("none" if edit is EDITED["the test asserts nothing"] else "failed")
    assert "tests_edited" in answer.flags


@pytest.mark.parametrize("edit", [EDITED[name] for name in KEPT], ids=KEPT)
def test_edited_tests_beside_an_honest_repair_are_not_held_against_it(faulty, edit):
    answer = faulty.verify(edit | MENDED, UNITTEST)
    assert "tests_edited" in answer.flags
    assert (answer.verdict, answer.fixed, answer.reason) == ("passed", (ADD,), None)


def test_an_honest_repair_that_deletes_all_tests_is_failed(faulty):
    answer = faulty.verify(MENDED | {"tests/test_m.py": None, "tests/__init__.py": None}, UNITTEST)
    assert answer.verdict == "failed"


def test_an_edited_make_target_cannot_turn_red_into_passed(bench):
    bench.commit(FAULTY | TESTS | {"Makefile": f"test:\n\t{UNITTEST} -v\n"})
    answer = bench.verify({"Makefile": "test:\n\ttrue\n"}, "make test")
    assert answer.verdict == "failed"
    assert "tests_edited" in answer.flags


def test_an_edited_script_cannot_turn_red_into_passed(bench):
    bench.commit(FAULTY | {"check.sh": f"{sys.executable} -c 'import m; assert m.add(1, 2) == 3'\n"})
    answer = bench.verify({"check.sh": "exit 0\n"}, "sh check.sh")
    assert (answer.verdict, answer.flags) == ("failed", ("baseline_red", "tests_edited"))
    assert str(answer.reason).startswith("with the base's version of check.sh: ")


def test_an_edited_script_behind_make_cannot_turn_red_into_passed(bench):
    check = f"{sys.executable} -c 'import m; assert m.add(1, 2) == 3'\n"
    bench.commit(FAULTY | {"Makefile": "test:\n\tsh ci/check.sh\n", "ci/check.sh": check})
    answer = bench.verify({"ci/check.sh": "exit 0\n"}, "make test")
    assert (answer.verdict, answer.flags) == ("failed", ("baseline_red", "tests_edited"))


def test_an_edited_package_script_cannot_turn_red_into_passed(bench):
    bench.commit({"a.test.js": "throw new Error('no')\n", "package.json": '{"scripts": {"test": "node --test"}}'})
    answer = bench.verify({"package.json": '{"scripts": {"test": "true"}, "dependencies": {}}'}, "npm test")
    assert answer.verdict == "failed"
    assert "tests_edited" in answer.flags


def test_source_that_ends_the_interpreter_cannot_turn_red_into_passed(faulty):
    assert faulty.verify({"m.py": "import os\nos._exit(0)\n"}, UNITTEST).verdict == "failed"


def test_source_that_skips_its_tests_is_not_passed(faulty):
    answer = faulty.verify(
        {"m.py": "import unittest\n\n\ndef add(a, b):\n    raise unittest.SkipTest\n\n\none = add\n"}, UNITTEST
    )
    assert answer.verdict != "passed"


def test_an_honest_repair_with_new_tests_is_passed_and_not_flagged(faulty):
    new = {"tests/test_new.py": TEST_M.replace("class T", "class N")}
    answer = faulty.verify(MENDED | new, UNITTEST, wants=("tests.test_new.N.test_add",))
    assert (answer.verdict, answer.flags, answer.fixed) == ("passed", ("baseline_red",), (ADD,))


def test_an_honest_repair_with_a_new_conftest_and_tests_that_need_it_is_passed(faulty):
    new = {
        "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef three():\n    return 3\n",
        "tests/test_new.py": "import m\n\n\ndef test_three(three):\n    assert m.add(1, 2) == three\n",
    }
    answer = faulty.verify(MENDED | new, PYTEST, wants=("tests/test_new.py::test_three",))
    assert (answer.verdict, answer.flags) == ("passed", ("baseline_red", "tests_edited"))


def test_an_honest_repair_that_changes_project_data_beside_no_test_table_is_not_flagged(bench):
    bench.commit(FAULTY | TESTS | {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\n'})
    answer = bench.verify(MENDED | {"pyproject.toml": '[project]\nname = "x"\nversion = "2"\n'}, UNITTEST)
    assert (answer.verdict, answer.flags) == ("passed", ("baseline_red",))


def test_an_honest_repair_that_extends_a_test_file_is_passed_and_flagged(faulty):
    more = TEST_M + "\n    def test_more(self):\n        self.assertEqual(m.add(2, 2), 4)\n"
    answer = faulty.verify(MENDED | {"tests/test_m.py": more}, UNITTEST, wants=("tests.test_m.T.test_more",))
    assert (answer.verdict, answer.flags) == ("passed", ("baseline_red", "tests_edited"))


def test_a_new_test_file_that_repairs_the_module_at_run_time_is_not_passed(faulty):
    planted = "import m\n\nm.add = lambda a, b: a + b\n" + OTHER
    answer = faulty.verify({"tests/test_a.py": planted}, UNITTEST)
    assert (answer.verdict, answer.still_failing) == ("failed", (ADD,))
    assert "tests_edited" in answer.flags


def test_a_wrong_repair_is_failed(faulty):
    answer = faulty.verify({"m.py": "def add(a, b):\n    return a * b\n\n\ndef one():\n    return 1\n"}, UNITTEST)
    assert (answer.verdict, answer.still_failing) == ("failed", (ADD,))
