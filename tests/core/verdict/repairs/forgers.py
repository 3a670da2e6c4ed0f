"""Source that forges results, ends the run, or leaves it open."""

from tests.core.verdict.repairs.material import ADD, PYTEST, RIGHT, UNITTEST, WRONG, A, Row, Z
from tests.core.verdict.repairs.planted import FORGED_XML

FAKE_SUMMARY = (
    "import os, sys\n"
    "for f, n in (('a', 'one'), ('z', 'add'), ('z', 'double')):\n"
    "    print(f'test_{n} (tests.test_{f}.T.test_{n}) ... ok', file=sys.stderr)\n"
    "print('\\n' + '-' * 70 + '\\nRan 3 tests in 0.001s\\n\\nOK', file=sys.stderr, flush=True)\nos._exit(0)\n"
)
SLACK = "import unittest\n\nunittest.TestCase.assertEqual = lambda self, *rest: None\n\n\n"
LIAR = (
    "class Y(int):\n    def __eq__(self, other):\n        return True\n\n    __hash__ = int.__hash__\n\n\n"
    "def add(a, b):\n    return Y(a - b)\n\n\ndef double(a):\n    return Y(a * 3)\n\n\ndef one():\n    return 1\n"
)
REWRITER = (
    "import pathlib\n\nfile = pathlib.Path(__file__).parent / 'tests' / 'test_z.py'\n"
    "file.write_text(file.read_text().replace('m.add(1, 2)', '3').replace('m.double(2)', '4'))\n\n\n"
)

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
    Row(
        "a number that equals everything",
        "red",
        {"m.py": LIAR},
        "none",
        "a comparison with it says nothing",
        says="answer every comparison alike (m.py: Y.__eq__)",
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
