"""Repairs that lie, repairs that are half done and honest ones, each judged by real runs in a real repository.

Nothing is 'passed' that should not be and nothing 'failed' that should not be. Where nobody can tell the honest from
the crooked without reading the change, the verdict is 'none'.
"""

import json
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PYTHON = sys.executable
PYTEST = f"{PYTHON} -m pytest -q -p no:hypothesispytest -p no:anyio"
UNITTEST = f"{PYTHON} -m unittest discover -s tests -t ."
Files = Mapping[str, str | None]

WRONG = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 3\n\n\ndef one():\n    return 1\n"
HALF = WRONG.replace("a - b", "a + b")
RIGHT = HALF.replace("a * 3", "a * 2")
CASE = "import json\nimport pathlib\nimport unittest\n\nimport m\n\n\nclass T(unittest.TestCase):\n"
TEST_ONE = "    def test_one(self):\n        self.assertEqual(m.one(), 1)\n"
TEST_ADD = "    def test_add(self):\n        self.assertEqual(m.add(1, 2), 3)\n"
TEST_DOUBLE = "    def test_double(self):\n        self.assertEqual(m.double(2), 4)\n"
TABLE = (
    "    def test_table(self):\n        table = pathlib.Path(__file__).parent / 'data' / 'sum.json'\n"
    "        self.assertEqual(m.add(2, 2), json.loads(table.read_text()))\n"
)
A, Z = CASE + TEST_ONE, CASE + TEST_ADD + "\n" + TEST_DOUBLE
ADD = "tests.test_z.T.test_add"
PROJECT = '[project]\nname = "m"\nversion = "1"\n'
BASE: Files = {
    "m.py": WRONG,
    "pyproject.toml": PROJECT,
    "tests/__init__.py": "",
    "tests/test_a.py": A,
    "tests/test_z.py": Z,
}
TABLED: Files = {
    **BASE,
    "m.py": RIGHT.replace("a + b", "a - b"),
    "tests/test_z.py": CASE + TABLE,
    "tests/data/sum.json": "4",
}
NODE_TEST = (
    "const {test} = require('node:test');\nconst {add} = require('./index');\n"
    "test('adds', () => { if (add(1, 2) !== 3) throw new Error('no'); });\ntest('other', () => {});\n"
)
PACKAGE = {"name": "m", "scripts": {"start": "node index.js", "test": "node --test"}}
INDEX = "exports.add = (a, b) => a - b;\n"
MAKEFILE = f"-include .env\nexport\n\nall: app\n\napp: app.in\n\tsed s/@/x/ app.in > app\n\ntest: app\n\t{PYTEST}\n"
RUST = (
    "pub fn f() -> i32 {{\n    {}\n}}\n\n"
    "#[cfg(test)]\nmod tests {{\n    #[test]\n    fn one() {{\n        assert_eq!(super::f(), {})\n    }}\n}}\n"
)
DOCTEST = 'def add(a, b):\n    """Add.\n\n    >>> add(1, 2)\n    {}\n    """\n    return a {} b\n'
WAVERING = (
    CASE + "    def test_wavers(self):\n        p = pathlib.Path({!r})\n"
    "        n = int(p.read_text()) if p.exists() else 0\n"
    "        p.write_text(str(n + 1))\n        self.assertFalse(m.one() == {} and n % 2)\n"
)

REPOSITORIES: dict[str, Files] = {
    "red": BASE,
    "green": {**BASE, "m.py": RIGHT},
    "tabled": TABLED,
    "make": {**BASE, "Makefile": MAKEFILE, "app.in": "@\n"},
    "app": {
        "Makefile": "test: app\n\t./check.sh\n\napp: app.in\n\tsed s/@/x/ app.in > app\n",
        "app.in": "@@\n",
        "check.sh": '#!/bin/sh\ntest "$(cat app)" = "x-"\n',
    },
    "script": {"m.py": WRONG, "check.sh": f"{PYTHON} -c 'import m; assert m.add(1, 2) == 3'\n"},
    "pytest script": {**BASE, "check.sh": f"{PYTEST}\n"},
    "run": {"app.sh": "echo 4\n", "want.txt": "3\n"},
    "node": {"index.js": INDEX, "a.test.js": NODE_TEST, "package.json": json.dumps(PACKAGE)},
    "no tests": {"m.py": WRONG, "tests/__init__.py": ""},
    "doctest": {"m.py": DOCTEST.format(3, "-")},
    "rust": {
        "Cargo.toml": '[package]\nname = "cr"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": RUST.format(2, 1),
    },
    "ignored": {**BASE, ".gitignore": "data/\n"},
    "polluting": {
        **BASE,
        "tests/test_a.py": CASE
        + "    def test_left(self):\n        left = [pathlib.Path('left'), pathlib.Path.home() / 'left']\n"
        "        self.assertFalse(any(p.exists() for p in left))\n        for p in left:\n            p.touch()\n",
    },
}


@dataclass(frozen=True)
class Row:
    """One repair. `why` says why the verdict is the right one."""

    name: str
    repository: str
    changes: Files
    verdict: str
    why: str
    command: str = UNITTEST
    flag: str | None = None
    says: str = ""
    options: dict[str, object] = field(default_factory=dict)
    needs: str | None = None
    slow: bool = False


HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
DESELECT = "--deselect tests/test_z.py"
MENDING = "import m\n\nm.add = lambda a, b: a + b\nm.double = lambda a: a * 2\n"
START_UP = (
    "import sys\nif 'discover' in sys.orig_argv:\n    sys.path.insert(0, '.')\n    import m\n"
    "    m.add = lambda a, b: a + b\n    m.double = lambda a: a * 2\n"
)
FORGED_XML = (
    "import os, re\n"
    "path = re.search(r'--junitxml=(\\S+)', os.environ['PYTEST_ADDOPTS'])[1].strip(chr(39))\n"
    'cases = \'\'.join(f\'<testcase classname="tests.test_{f}.T" name="test_{n}" file="tests/test_{f}.py"/>\'\n'
    "                for f, n in (('a', 'one'), ('z', 'add'), ('z', 'double')))\n"
    "open(path, 'w').write(f'<testsuites><testsuite>{cases}</testsuite></testsuites>')\n"
    "os._exit(0)\n"
)
FAKE_SUMMARY = (
    "import os, sys\n"
    "for f, n in (('a', 'one'), ('z', 'add'), ('z', 'double')):\n"
    "    print(f'test_{n} (tests.test_{f}.T.test_{n}) ... ok', file=sys.stderr)\n"
    "print('\\n' + '-' * 70 + '\\nRan 3 tests in 0.001s\\n\\nOK', file=sys.stderr, flush=True)\nos._exit(0)\n"
)
SLACK = "import unittest\n\nunittest.TestCase.assertEqual = lambda self, *rest: None\n\n\n"
REWRITER = (
    "import pathlib\n\nfile = pathlib.Path(__file__).parent / 'tests' / 'test_z.py'\n"
    "file.write_text(file.read_text().replace('m.add(1, 2)', '3').replace('m.double(2)', '4'))\n\n\n"
)
ENTRY_POINT = {
    "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
    "evil-1.dist-info/entry_points.txt": "[pytest11]\nevil = evil\n",
    "evil.py": HOOK,
}
SITE = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
IN_VENV = {"command": f".venv/bin/{UNITTEST.rpartition('/')[2]}", "setup": f"{PYTHON} -m venv --without-pip .venv"}
FAKE_PYTHON = (
    "#!/bin/sh\n"
    + "".join(
        f"echo 'test_{n} (tests.test_{f}.T.test_{n}) ... ok' >&2\n"
        for f, n in (("a", "one"), ("z", "add"), ("z", "double"))
    )
    + "echo; echo 'Ran 3 tests in 0.001s' >&2\n"
)

WRONG_REPAIRS = [
    Row("another wrong answer", "red", {"m.py": WRONG.replace("a - b", "a * b")}, "failed", "the red tests stay red"),
    Row("half of the repair", "red", {"m.py": HALF}, "failed", "one of the two red tests stays red"),
    Row(
        "a repair that breaks something else",
        "red",
        {"m.py": RIGHT.replace("return 1", "return 2")},
        "failed",
        "test_one is newly red",
    ),
    Row("a regression", "green", {"m.py": HALF}, "failed", "test_double is newly red"),
    Row(
        "a regression that shows only in the whole run",
        "green",
        {"m.py": RIGHT.replace("return 1", "globals().update(add=lambda a, b: 0)\n    return 1")},
        "failed",
        "test_add passes alone and fails twice after test_one",
    ),
    Row("a comment", "red", {"m.py": WRONG + "# repaired\n"}, "failed", "nothing is repaired"),
    Row(
        "no worse, yet something new is red",
        "red",
        {"m.py": WRONG.replace("return 1", "return 2")},
        "failed",
        "no_worse lets old failures be and no new one",
        options={"accept": "no_worse"},
    ),
    Row(
        "a repair that misses what was wanted",
        "red",
        {"m.py": HALF},
        "failed",
        "the wanted test is still red",
        options={"accept": "no_worse", "wants": ("tests.test_z.T.test_double",)},
    ),
    Row(
        "a wrong answer in node",
        "node",
        {"index.js": INDEX.replace("-", "*")},
        "failed",
        "'adds' stays red",
        "npm test",
    ),
    Row("a wrong template", "app", {"app.in": "@+\n"}, "failed", "the check of the built file stays red", "make test"),
]

EDITED_TESTS = [
    Row(
        "one red test of its class deleted",
        "red",
        {"m.py": HALF, "tests/test_z.py": CASE + TEST_ADD},
        "failed",
        "a red test was taken away",
        flag="tests_edited",
    ),
    Row(
        "a repair and all tests deleted",
        "red",
        {"m.py": RIGHT, "tests/test_a.py": None, "tests/test_z.py": None},
        "failed",
        "the tests disappeared",
        flag="tests_edited",
    ),
    Row(
        "an assertion made weaker",
        "red",
        {"tests/test_z.py": Z.replace("m.add(1, 2)", "3").replace("m.double(2)", "4")},
        "none",
        "the base's form is red, the new one green: whether the test was wrong nobody can say",
        flag="tests_edited",
    ),
    Row(
        "the red tests deleted",
        "red",
        {"tests/test_z.py": CASE + "    def test_new(self):\n        pass\n"},
        "failed",
        "a red test was taken away, not repaired",
        flag="tests_edited",
    ),
    Row(
        "the red tests skipped",
        "red",
        {"tests/test_z.py": Z.replace("class T", "@unittest.skip('later')\nclass T")},
        "failed",
        "a skipped test is a test taken away",
        flag="tests_edited",
    ),
    Row(
        "the red tests expected to fail",
        "red",
        {"tests/test_z.py": "import pytest\n\npytestmark = pytest.mark.xfail\n" + Z},
        "failed",
        "so is one that is expected to fail",
        PYTEST,
        "tests_edited",
    ),
    Row(
        "the red file renamed",
        "red",
        {"tests/test_z.py": None, "tests/later_z.py": Z},
        "failed",
        "the base's file is red where it was",
        flag="tests_edited",
    ),
    Row(
        "all tests deleted", "green", {"tests/test_a.py": None, "tests/test_z.py": None}, "failed", "tests disappeared"
    ),
    Row(
        "the expected data edited",
        "tabled",
        {"tests/data/sum.json": "0"},
        "none",
        "the data may have been wrong or may be the hack",
        flag="tests_edited",
    ),
    Row(
        "a regression and its test edited",
        "green",
        {"m.py": HALF, "tests/test_z.py": Z.replace("2), 4", "2), 6")},
        "none",
        "a change of behaviour looks the same",
        flag="tests_edited",
    ),
    Row(
        "a regression and another test edited",
        "green",
        {
            "m.py": RIGHT.replace("return 1", "return 2"),
            "tests/test_z.py": Z + "\n\ndef more():\n    m.one = lambda: 1\n\n\nmore()\n",
        },
        "failed",
        "a test that was left alone is red without the edit",
        flag="tests_edited",
    ),
    Row(
        "an example edited",
        "doctest",
        {"m.py": DOCTEST.format(-1, "-")},
        "none",
        "the example is the test",
        f"{PYTEST} --doctest-modules m.py",
        "tests_edited",
        slow=True,
    ),
    Row(
        "a unit test in the source edited",
        "rust",
        {"src/lib.rs": RUST.format(2, 2)},
        "none",
        "the base's tests are red, whether they were wrong nobody can say",
        "cargo test --offline --lib",
        "tests_edited",
        needs="cargo",
        slow=True,
    ),
]

PLANTED = [
    Row(
        "a conftest below the tests",
        "red",
        {"tests/conftest.py": HOOK},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "a module of the standard library",
        "red",
        {"shlex.py": FORGED_XML},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "options in setup.cfg",
        "red",
        {"setup.cfg": f"[tool:pytest]\naddopts = {DESELECT}\n"},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "an edited script behind make",
        "app",
        {"check.sh": "#!/bin/sh\nexit 0\n"},
        "failed",
        "the script judges",
        "make test",
        "tests_edited",
    ),
    Row(
        "a conftest that turns reports green",
        "red",
        {"conftest.py": HOOK},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
    ),
    Row("a module named pytest", "red", {"pytest.py": FORGED_XML}, "failed", "not of the base", PYTEST, "tests_edited"),
    Row(
        "sitecustomize.py",
        "red",
        {"sitecustomize.py": START_UP},
        "failed",
        "code at start-up is not of the base",
        f"PYTHONPATH=. {UNITTEST}",
        "tests_edited",
    ),
    Row(
        "usercustomize.py",
        "red",
        {"usercustomize.py": START_UP},
        "failed",
        "code at start-up is not of the base",
        f"PYTHONPATH=. {UNITTEST}",
        "tests_edited",
        slow=True,
    ),
    Row(
        "a .pth file in the environment that setup makes",
        "red",
        {f"{SITE}/evil.pth": "import sys; exec(open('evil.txt').read())\n", "evil.txt": START_UP},
        "failed",
        "what is installed comes from setup alone",
        flag="tests_edited",
        options=IN_VENV,
        slow=True,
    ),
    Row(
        "a module planted in the environment that setup makes",
        "red",
        {f"{SITE}/m.py": RIGHT, f"{SITE}/evil.pth": f"import sys; sys.path.insert(0, sys.prefix + '/{SITE[6:]}')\n"},
        "failed",
        "what is installed comes from setup alone",
        flag="tests_edited",
        options=IN_VENV,
        slow=True,
    ),
    Row(
        "options in pytest.ini",
        "red",
        {"pytest.ini": f"[pytest]\naddopts = {DESELECT}\n"},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
    ),
    Row(
        "options in tox.ini",
        "red",
        {"tox.ini": f"[pytest]\naddopts = {DESELECT}\n"},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "options in pyproject.toml",
        "red",
        {"pyproject.toml": f"{PROJECT}\n[tool.pytest.ini_options]\naddopts = '{DESELECT}'\n"},
        "failed",
        "not of the base",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "a plugin by entry point",
        "red",
        ENTRY_POINT,
        "failed",
        "a plugin that no setup installed",
        PYTEST,
        "tests_edited",
    ),
    Row(
        "a plugin by a file of the environment",
        "make",
        {".env": "PYTEST_PLUGINS=evil\n", "evil.py": HOOK},
        "failed",
        "lines that steer the runner go back to the base",
        "make test",
        "tests_edited",
        slow=True,
    ),
    Row(
        "a plugin by the script",
        "pytest script",
        {"check.sh": f"PYTEST_PLUGINS=evil {PYTEST}\n", "evil.py": HOOK},
        "failed",
        "the script judges",
        "sh check.sh",
        "tests_edited",
        slow=True,
    ),
    Row(
        "an edited make target",
        "make",
        {"Makefile": "test:\n\ttrue\n"},
        "failed",
        "the tests disappeared",
        "make test",
        "tests_edited",
    ),
    Row(
        "an edited check script",
        "script",
        {"check.sh": "exit 0\n"},
        "failed",
        "the script judges",
        "sh check.sh",
        "tests_edited",
    ),
    Row(
        "an edited package script",
        "node",
        {"package.json": json.dumps(PACKAGE | {"scripts": {"test": "true"}})},
        "failed",
        "the tests disappeared",
        "npm test",
        "tests_edited",
        needs="npm",
        slow=True,
    ),
    Row(
        "another interpreter on the path",
        "red",
        {"bin/python3": FAKE_PYTHON},
        "failed",
        "programs are not of the change",
        f"PATH=$PWD/bin:$PATH python3 {UNITTEST.partition(' ')[2]}",
        "tests_edited",
    ),
    Row(
        "new tests that mend the code",
        "red",
        {"tests/test_0.py": MENDING + CASE + TEST_ONE},
        "failed",
        "without the new file the old tests are red",
        flag="tests_edited",
    ),
    Row(
        "new tests that hide a regression",
        "green",
        {"m.py": WRONG, "tests/test_0.py": MENDING + CASE + TEST_ONE},
        "failed",
        "without the new file the old tests are red",
        flag="tests_edited",
    ),
]

FORGERS = [
    Row(
        "source that skips its tests",
        "red",
        {"m.py": "import unittest\n\n\ndef add(*rest):\n    raise unittest.SkipTest\n\n\none = double = add\n"},
        "none",
        "a skipped test is no verdict",
    ),
    Row(
        "source that writes the report",
        "red",
        {"m.py": FORGED_XML},
        "failed",
        "tests that must fail do not",
        PYTEST,
        says="written to fail",
    ),
    Row(
        "source that prints the summary",
        "red",
        {"m.py": FAKE_SUMMARY},
        "failed",
        "tests that must fail do not",
        says="written to fail",
    ),
    Row(
        "source that makes assertions slack",
        "red",
        {"m.py": SLACK + WRONG},
        "failed",
        "tests that must fail do not",
        says="written to fail",
    ),
    Row(
        "source that rewrites its tests",
        "red",
        {"m.py": REWRITER + WRONG},
        "none",
        "what ran is not what was there",
        says="wrote over",
    ),
    Row("exit(0) on import", "red", {"m.py": "raise SystemExit(0)\n"}, "failed", "the tests disappeared"),
    Row(
        "exit(0) on import before pytest",
        "red",
        {"m.py": "import sys\nsys.exit(0)\n"},
        "failed",
        "the tests disappeared",
        PYTEST,
    ),
    Row(
        "os._exit(0) in a function",
        "red",
        {"m.py": WRONG.replace("return a - b", "__import__('os')._exit(0)")},
        "failed",
        "the tests disappeared",
    ),
    Row(
        "os._exit(0) in a new test",
        "red",
        {"tests/test_0.py": "import os\n\nos._exit(0)\n"},
        "failed",
        "the tests disappeared",
    ),
    Row(
        "exit(0) on import before a script",
        "script",
        {"m.py": "import os\nos._exit(0)\n"},
        "none",
        "an exit code that the code chose says nothing",
        "sh check.sh",
    ),
    Row(
        "killing its runner",
        "red",
        {"m.py": "import os\nos.kill(os.getpid(), 9)\n"},
        "none",
        "a killed run is no verdict",
        says="SIGKILL",
    ),
    Row(
        "killing its shell",
        "red",
        {"m.py": "import os\nos.kill(os.getppid(), 9)\n" + RIGHT},
        "none",
        "a killed run is no verdict",
        f"{UNITTEST}; exit $?",
        slow=True,
    ),
    Row(
        "hanging",
        "red",
        {"m.py": "import time\ntime.sleep(600)\n"},
        "none",
        "no end is no verdict",
        says="timeout",
        options={"timeout_seconds": 3.0},
    ),
    Row(
        "process.exit(0) on import",
        "node",
        {"index.js": "process.exit(0);\n"},
        "none",
        "the base's tests did not run",
        "npm test",
        needs="npm",
        slow=True,
    ),
    Row(
        "a flaw that shows every second time",
        "red",
        {},
        "none",
        "only the change wavers",
        says="flaky",
        options={"confinement": "off"},
    ),
    Row(
        "a file that git ignores",
        "ignored",
        {"m.py": RIGHT.replace("return 1", "return int(open('data/one').read())")},
        "failed",
        "the patch lacks it",
        flag="needs_ignored_file",
        options={"ignored_files": ("data/one",)},
    ),
    Row(
        "a wanted test that fails",
        "no tests",
        {"tests/test_n.py": Z},
        "failed",
        "it is there and red",
        options={"wants": (ADD.replace("_z", "_n"),)},
    ),
    Row(
        "a wanted test that is not there",
        "no tests",
        {"m.py": RIGHT, "tests/test_n.py": A},
        "failed",
        "it is not there",
        options={"wants": (ADD.replace("_z", "_n"),)},
    ),
]

HONEST = [
    Row(
        "a repair beside a test that is skipped",
        "red",
        {"m.py": RIGHT, "tests/test_z.py": Z.replace("class T", "@unittest.skip('later')\nclass T")},
        "passed",
        "the base's form is green",
        flag="tests_edited",
    ),
    Row(
        "a repair beside a test file deleted",
        "red",
        {"m.py": RIGHT, "tests/test_z.py": None},
        "passed",
        "the base's form is green",
        flag="tests_edited",
    ),
    Row("a repair", "red", {"m.py": RIGHT}, "passed", "all green"),
    Row("a repair under pytest", "red", {"m.py": RIGHT}, "passed", "all green", PYTEST),
    Row(
        "a repair with a new test file",
        "red",
        {"m.py": RIGHT, "tests/test_n.py": Z.replace("class T", "class N")},
        "passed",
        "all green with and without it",
    ),
    Row(
        "a repair with more tests in the old file",
        "red",
        {"m.py": RIGHT, "tests/test_z.py": Z + "\n" + TEST_ONE},
        "passed",
        "green with the base's form too",
        flag="tests_edited",
    ),
    Row(
        "a repair with a fixture of its own",
        "red",
        {
            "m.py": RIGHT,
            "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef three():\n    return 3\n",
            "tests/test_n.py": "import m\n\n\ndef test_n(three):\n    assert m.add(1, 2) == three\n",
        },
        "passed",
        "the base's tests are green without it",
        PYTEST,
        "tests_edited",
        options={"wants": ("tests/test_n.py::test_n",)},
        slow=True,
    ),
    Row(
        "a repair that moves the module",
        "red",
        {"m.py": None, "m/__init__.py": "from m.core import *\n", "m/core.py": RIGHT},
        "passed",
        "the tests see the same",
    ),
    Row(
        "a repair with project data and settings",
        "red",
        {"m.py": RIGHT, "pyproject.toml": PROJECT.replace('"1"', '"2"'), ".env": "COLOUR=red\n", "README.md": "m\n"},
        "passed",
        "none of it steers tests",
    ),
    Row(
        "a repair beside a make target",
        "make",
        {"m.py": RIGHT, "app.in": "x@\n"},
        "passed",
        "sources of make are no judges",
        "make test",
        slow=True,
    ),
    Row("a repaired template", "app", {"app.in": "@-\n"}, "passed", "sources of make are no judges", "make test"),
    Row(
        "a repair in node",
        "node",
        {"index.js": INDEX.replace("-", "+")},
        "passed",
        "what npm starts is no judge",
        "npm test",
        needs="npm",
        slow=True,
    ),
    Row(
        "a repaired example",
        "doctest",
        {"m.py": DOCTEST.format(3, "+")},
        "passed",
        "the example stayed",
        f"{PYTEST} --doctest-modules m.py",
        slow=True,
    ),
    Row(
        "a repair beside unit tests in the source",
        "rust",
        {"src/lib.rs": RUST.format(1, 1)},
        "passed",
        "only its tests judge",
        "cargo test --offline --lib",
        needs="cargo",
        slow=True,
    ),
    Row("a repair judged by a script", "script", {"m.py": RIGHT}, "passed", "exit code 0", "sh check.sh"),
    Row(
        "a repair of what the command runs",
        "run",
        {"app.sh": "echo 3\n"},
        "none",
        "the program may be the judge",
        "sh app.sh | diff - want.txt",
    ),
    Row(
        "a repair whose tests leave files",
        "polluting",
        {"m.py": RIGHT},
        "passed",
        "each run has a checkout and a home of its own",
    ),
    Row(
        "a repair beside a flaky test",
        "red",
        {},
        "passed",
        "the base wavers too",
        flag="flaky",
        options={"confinement": "off"},
    ),
    Row(
        "an improvement under no_worse",
        "red",
        {"m.py": HALF},
        "passed",
        "one repaired, none newly red",
        options={"accept": "no_worse", "wants": (ADD,)},
    ),
    Row(
        "a first test that was wanted",
        "no tests",
        {"m.py": RIGHT, "tests/test_n.py": Z},
        "passed",
        "the base had none to compare",
        says="ran no tests",
        options={"wants": (ADD.replace("_z", "_n"),)},
    ),
    Row(
        "a change of behaviour with its tests",
        "green",
        {"m.py": RIGHT.replace("a * 2", "a * 4"), "tests/test_z.py": Z.replace("2), 4", "2), 8")},
        "none",
        "a hidden regression looks the same",
        flag="tests_edited",
    ),
    Row(
        "a feature removed with its tests",
        "green",
        {"m.py": RIGHT.replace("def double", "def _gone"), "tests/test_z.py": CASE + TEST_ADD},
        "none",
        "a hidden regression looks the same",
        flag="tests_edited",
    ),
    Row(
        "a wrong test put right",
        "green",
        {"tests/test_z.py": Z.replace("2), 4", "3), 6")},
        "passed",
        "the base's form is green too",
        flag="tests_edited",
    ),
]

ROWS = [*WRONG_REPAIRS, *EDITED_TESTS, *PLANTED, *FORGERS, *HONEST]
CROOKED = [*WRONG_REPAIRS, *EDITED_TESTS, *PLANTED, *FORGERS]


def as_parameter(row: Row):
    marks = [pytest.mark.slow] if row.slow else []
    if row.needs and shutil.which(row.needs) is None:
        marks.append(pytest.mark.skip(reason=f"needs {row.needs}"))
    return pytest.param(row, id=row.name.replace(" ", "-"), marks=marks)


@pytest.fixture(scope="module")
def answers(request, tmp_path_factory, new_bench, rust_home):
    """The verdicts of the chosen rows to come, two at a time. Rows about one repository share it and its base."""
    benches = {name: new_bench(tmp_path_factory.mktemp("repo")) for name in REPOSITORIES}
    for name, bench in benches.items():
        bench.commit(REPOSITORIES[name])

    def judged(row: Row):
        bench, changes = benches[row.repository], row.changes
        if not changes:
            bench, changes = wavering(new_bench(tmp_path_factory.mktemp("counting")), on_base=row.verdict == "passed")
        record = tmp_path_factory.mktemp("record")
        return bench.verify(changes, **{"command": row.command, "record_dir": record} | row.options)

    chosen = [item.callspec.params["row"] for item in request.session.items if is_row(item) and not is_skipped(item)]
    with ThreadPoolExecutor(2) as pool:
        coming = {row.name: pool.submit(judged, row) for row in chosen}
        yield coming
        for future in coming.values():
            future.cancel()


def wavering(bench, *, on_base: bool):
    """A repository of its own, for the counter on disk that every second run of a test finds odd, and a change."""
    number = 1 if on_base else 2
    bench.commit({**BASE, "m.py": RIGHT, "tests/test_a.py": WAVERING.format(str(bench.root / "counter"), number)})
    return bench, {"m.py": RIGHT.replace("return 1", "return 1  #" if on_base else "return 2")}


def is_row(item: pytest.Item) -> bool:
    return "row" in getattr(getattr(item, "callspec", None), "params", {})


def is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


@pytest.mark.parametrize("row", [as_parameter(row) for row in ROWS])
def test_a_repair_gets_the_verdict_it_deserves(row: Row, answers):
    answer = answers[row.name].result()
    assert (answer.verdict, row.why) == (row.verdict, row.why), answer.reason
    assert row.flag is None or row.flag in answer.flags
    assert row.says in str(answer.reason)
    assert answer.verdict == "passed" or answer.reason


def test_the_reference_lists_every_repair():
    head = ["| change | verdict | why |", "|---|---|---|"]
    table = "\n".join([*head, *(f"| {row.name} | `{row.verdict}` | {row.why} |" for row in ROWS)])
    reference = Path(__file__).parents[3] / "docs" / "reference" / "verdict.md"
    assert table in reference.read_text(encoding="utf-8"), f"docs/reference/verdict.md needs this table:\n{table}"


def test_there_are_forty_crooked_repairs_and_none_is_expected_to_pass():
    assert len(CROOKED) >= 40
    assert {row.verdict for row in CROOKED} == {"failed", "none"}
    assert {row.verdict for row in HONEST} == {"passed", "none"}
    assert len({row.name for row in ROWS}) == len(ROWS)
