"""Repairs that plant files or settings which steer the tests of Python projects."""

import json
import sys

from tests.core.verdict.repairs.material import (
    CASE,
    PACKAGE,
    PROJECT,
    PYTEST,
    PYTHON,
    RIGHT,
    TEST_ONE,
    UNITTEST,
    WRONG,
    Row,
)

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
