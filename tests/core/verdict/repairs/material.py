"""The repositories that are repaired, what their tests say, and the form of a repair."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

PYTHON = sys.executable
PYTEST = f"{PYTHON} -m pytest -q -p no:hypothesispytest -p no:anyio"
UNITTEST = f"{PYTHON} -m unittest discover -s tests -t ."
Files = Mapping[str, str | bytes | None]

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
A = CASE + TEST_ONE
Z = CASE + TEST_ADD + "\n" + TEST_DOUBLE
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
