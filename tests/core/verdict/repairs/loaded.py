"""Repairs that get loaded in the place of the tests or of what they import, or that run while things are set up."""

import marshal
import sys
from importlib.util import MAGIC_NUMBER

from tests.core.verdict.repairs.material import (
    ADD,
    CASE,
    PROJECT,
    PYTEST,
    PYTHON,
    RIGHT,
    TEST_ADD,
    WRONG,
    Row,
    Z,
)


def bytecode(source: str, name: str) -> bytes:
    """Python loads it whatever the source says: its flags claim that nobody needs to compare the two."""
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(compile(source, name, "exec"))


CACHED = f"__pycache__/{{}}.cpython-{sys.version_info.major}{sys.version_info.minor}.pyc"
PLAIN_TEST = "import m\n\n\ndef test_add():\n    assert m.add(1, 2) == 3\n"
SETUP_PY = f"import pathlib\n\npathlib.Path('m.py').write_text({RIGHT!r})\n"
NEW_TEST = "import m\nfrom helping import THREE\n\n\ndef test_n():\n    assert m.add(1, 2) == THREE\n"
REPOSITORIES = {
    "flat": {"m.py": WRONG, "tests/test_z.py": PLAIN_TEST, "pyproject.toml": PROJECT},
    "plugged": {
        "m.py": WRONG,
        "conftest.py": 'pytest_plugins = ["support.helping"]\n',
        "support/helping.py": "\n",
        "tests/test_z.py": PLAIN_TEST,
    },
    "installed": {"m.py": WRONG, "setup.py": "\n", "tests/__init__.py": "", "tests/test_z.py": Z},
}
MEND = "import m\n\nm.add = lambda a, b: a + b\n"

PLANTED_LOADED = [
    Row(
        "bytecode in the place of the tests",
        "red",
        {f"tests/{CACHED.format('test_z')}": bytecode(CASE + TEST_ADD.replace("m.add(1, 2)", "3"), "tests/test_z.py")},
        "failed",
        "bytecode is never of the change",
        flag="tests_edited",
    ),
    Row(
        "bytecode in the place of the module",
        "red",
        {CACHED.format("m"): bytecode(RIGHT, "m.py")},
        "failed",
        "bytecode is never of the change",
        flag="tests_edited",
    ),
    Row(
        "a module beside the tests in the place of the source",
        "flat",
        {"tests/m.py": RIGHT},
        "failed",
        "without the new file the old tests are red",
        PYTEST,
        "tests_edited",
    ),
    Row(
        "an edited plugin that a conftest names",
        "plugged",
        {"support/helping.py": MEND},
        "failed",
        "what pytest is told to load judges",
        PYTEST,
        "tests_edited",
        slow=True,
    ),
    Row(
        "a plugin that the command names",
        "plugged",
        {"support/helping.py": MEND},
        "failed",
        "what pytest is told to load judges",
        f"PYTHONPATH=. {PYTEST} -p support.helping",
        "tests_edited",
        slow=True,
    ),
    Row(
        "a setup.py that installs the repair",
        "installed",
        {"setup.py": SETUP_PY},
        "none",
        "set-up may have been what was missing",
        flag="tests_edited",
        options={"setup": f"{PYTHON} setup.py"},
        slow=True,
    ),
]

HONEST_LOADED = [
    Row(
        "a repair with a helper beside the tests",
        "flat",
        {
            "m.py": RIGHT,
            "tests/helping.py": "THREE = 3\n",
            "tests/test_n.py": NEW_TEST,
        },
        "passed",
        "the base's tests are green without it",
        PYTEST,
    ),
    Row(
        "a repair beside a setup.py with a new version",
        "installed",
        {"m.py": RIGHT, "setup.py": "VERSION = '2'\n"},
        "passed",
        "green without the new set-up too",
        flag="tests_edited",
        options={"wants": (ADD,)},
    ),
]
