"""Repairs in JavaScript, Rust and behind make: what is planted or edited there must not turn red into 'passed'."""

import json
from pathlib import Path

from tests.core.verdict.repairs.material import INDEX, NODE_TEST, PACKAGE, PYTHON, RUST, Row

JEST = Path(__file__).parents[4] / ".programs" / "jest" / "node_modules"
IN_JEST = {"setup": f"ln -s {JEST} node_modules"}
JEST_PACKAGE = {"name": "m", "scripts": {"test": "jest"}, "jest": {"setupFilesAfterEnv": ["<rootDir>/support/env.js"]}}
JEST_TEST = (
    "const {add, slug} = require('./m');\ntest('adds', () => expect(add(1, 2)).toBe(3));\n"
    "test('slugs', () => expect(slug('a\\\\b')).toBe('a/b'));\ntest('other', () => {});\n"
)
JEST_SOURCE = "const slash = require('slash');\nexports.add = (a, b) => a - b;\nexports.slug = (text) => slash(text);\n"
MENDED = JEST_SOURCE.replace("-", "+")
ASSERTING = NODE_TEST.replace(
    "if (add(1, 2) !== 3) throw new Error('no');", "require('node:assert').strictEqual(add(1, 2), 3);"
)
MEND = "require('{}').add = (a, b) => a + b;\n"
CARGO = '[package]\nname = "cr"\nversion = "0.1.0"\nedition = "2021"\n'
CARGO_TEST = "cargo test --offline --lib"
FORGED_MAIN = '\n#[cfg(test)]\nfn main() {\n    println!("test tests::one ... ok");\n}\n'
SLACK_MACRO = "#[allow(unused_macros)]\nmacro_rules! assert_eq { ($($t:tt)*) => { () } }\n\n"
CHECK = f"{PYTHON} -c 'import m; assert m.add(1, 2) == 3'\n"
SUBTRACTING = "def add(a, b):\n    return a - b\n"

REPOSITORIES = {
    "node asserting": {"index.js": INDEX, "a.test.js": ASSERTING, "package.json": json.dumps(PACKAGE)},
    "node preloading": {"index.js": INDEX, "a.test.js": NODE_TEST, "pre.mjs": "\n", "check-env.cjs": "\n"},
    "jest": {
        "m.js": JEST_SOURCE,
        "a.test.js": JEST_TEST,
        "support/env.js": "\n",
        "package.json": json.dumps(JEST_PACKAGE),
    },
    "made": {
        "m.py": SUBTRACTING,
        "Makefile": f"-include local.rules\n\nRUN = {CHECK}\ntest:\n\t$(RUN)\n",
    },
    "scripts": {"m.py": SUBTRACTING, "ci.sh": "sh tools/look.sh\n", "tools/look.sh": CHECK},
}

PLANTED_ELSEWHERE = [
    Row(
        "another shell in .npmrc",
        "node",
        {".npmrc": "script-shell=./sh.sh\n", "sh.sh": "#!/bin/sh\nexit 0\n"},
        "failed",
        "not of the base",
        "npm test",
        "tests_edited",
        needs="npm",
        slow=True,
    ),
    Row(
        "options of node in .npmrc",
        "node",
        {".npmrc": "node-options=--require ./mend.js\n", "mend.js": MEND.format("./index")},
        "failed",
        "not of the base",
        "npm test",
        "tests_edited",
        needs="npm",
        slow=True,
    ),
    Row(
        "a package script before the tests",
        "node",
        {
            "package.json": json.dumps(
                PACKAGE | {"scripts": {"pretest": "sed -i s/-/+/ index.js", "test": "node --test"}}
            )
        },
        "failed",
        "package scripts go back to the base",
        "npm test",
        "tests_edited",
        needs="npm",
        slow=True,
    ),
    Row(
        "an edited preload named as what checks",
        "node preloading",
        {"check-env.cjs": MEND.format("./index")},
        "none",
        "what the command loads may hold the test, and may be the hack",
        "node --require=./check-env.cjs --test",
        "tests_edited",
        needs="npm",
    ),
    Row(
        "an edited preload",
        "node preloading",
        {"pre.mjs": "import m from './index.js';\nm.add = (a, b) => a + b;\n"},
        "none",
        "what the command loads may be the judge",
        "node --import ./pre.mjs --test",
        needs="npm",
    ),
    Row(
        "a new test that mends the code in node",
        "node",
        {"0.test.js": MEND.format("./index") + NODE_TEST.replace("adds", "new"), "index.js": INDEX.replace("-", "*")},
        "failed",
        "the old test stays red",
        "npm test",
        needs="npm",
        slow=True,
    ),
    Row(
        "a configuration of jest",
        "jest",
        {"jest.config.js": "module.exports = {testNamePattern: 'other'};\n", "package.json": json.dumps(PACKAGE)},
        "failed",
        "not of the base",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
        slow=True,
    ),
    Row(
        "a mapping of modules for jest",
        "jest",
        {
            "package.json": json.dumps(
                JEST_PACKAGE | {"jest": {"moduleNameMapper": {"^\\./m$": "<rootDir>/mended.js"}}}
            ),
            "mended.js": MENDED,
        },
        "failed",
        "jest's table goes back to the base",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
        slow=True,
    ),
    Row(
        "an edited set-up file of jest",
        "jest",
        {"support/env.js": MEND.format("../m")},
        "failed",
        "jest's table names it, so it judges",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
    ),
    Row(
        "a mock that nobody asked for",
        "jest",
        {
            "__mocks__/slash.js": "const m = require('../m');\nm.add = (a, b) => a + b;\n"
            "module.exports = (text) => text.replace('\\\\', '/');\n"
        },
        "failed",
        "not of the base",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
    ),
    Row(
        "a plugin of babel",
        "jest",
        {
            ".babelrc": '{"plugins": ["./plugin.js"]}',
            "plugin.js": "module.exports = () => ({visitor: {BinaryExpression: (p) => { p.node.operator = '+'; }}});\n",
        },
        "failed",
        "not of the base",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
        slow=True,
    ),
    Row(
        "a file named like the target",
        "made",
        {"test": ""},
        "failed",
        "make takes the target for done",
        "make test",
        "tests_edited",
    ),
    Row(
        "a folder named like the target",
        "made",
        {"test/data.txt": ""},
        "none",
        "make had nothing to do",
        "make test",
        says="no tests ran",
    ),
    Row(
        "a file that the makefile includes",
        "made",
        {"local.rules": "override RUN = true\n"},
        "failed",
        "it is part of the makefile",
        "make test",
        "tests_edited",
    ),
    Row(
        "an edited script behind the script",
        "scripts",
        {"tools/look.sh": "exit 0\n"},
        "none",
        "the script may be the judge",
        "sh ci.sh",
        "tests_edited",
    ),
    Row(
        "a build script that writes the source",
        "rust",
        {
            "build.rs": 'fn main() {\n    let text = std::fs::read_to_string("src/lib.rs").unwrap();\n'
            '    std::fs::write("src/lib.rs", text.replacen("    2\\n", "    1\\n", 1)).unwrap();\n}\n'
        },
        "none",
        "a build script may be what was missing",
        CARGO_TEST,
        "tests_edited",
        needs="cargo",
        slow=True,
    ),
    Row(
        "a harness of its own",
        "rust",
        {
            "Cargo.toml": CARGO + "\n[lib]\nharness = false\n",
            "src/lib.rs": RUST.format(2, 1)
            + '\n#[cfg(test)]\nfn main() {\n    println!("test tests::one ... ok");\n}\n',
        },
        "failed",
        "Cargo's tables for tests go back to the base",
        CARGO_TEST,
        "tests_edited",
        needs="cargo",
        slow=True,
    ),
    Row(
        "a runner in .cargo/config.toml",
        "rust",
        {
            ".cargo/config.toml": '[target."cfg(all())"]\nrunner = "sh fake.sh"\n',
            "fake.sh": "echo 'test tests::one ... ok'\n",
        },
        "failed",
        "not of the base",
        CARGO_TEST,
        "tests_edited",
        needs="cargo",
        slow=True,
    ),
]

FORGERS_ELSEWHERE = [
    Row(
        "source that makes assertions of node slack",
        "node asserting",
        {"index.js": "require('node:assert').strictEqual = () => {};\n" + INDEX},
        "failed",
        "tests that must fail do not",
        "npm test",
        says="written to fail",
        needs="npm",
        slow=True,
    ),
    Row(
        "source that makes expectations of jest slack",
        "jest",
        {"m.js": "global.expect = () => new Proxy({}, {get: () => () => {}});\n" + JEST_SOURCE},
        "failed",
        "tests that must fail do not",
        "npm test",
        says="written to fail",
        needs="npm",
        options=IN_JEST,
        slow=True,
    ),
    Row(
        "source that makes assertions of Rust slack",
        "rust",
        {
            "src/lib.rs": "#[allow(unused_macros)]\nmacro_rules! assert_eq { ($($t:tt)*) => { () } }\n\n"
            + RUST.format(2, 1)
        },
        "failed",
        "tests that must fail do not",
        CARGO_TEST,
        says="written to fail",
        needs="cargo",
        slow=True,
    ),
]

HONEST_ELSEWHERE = [
    Row(
        "a repair under jest with a new dependency",
        "jest",
        {
            "m.js": MENDED,
            "package.json": json.dumps(JEST_PACKAGE | {"dependencies": {"ms": "2"}}),
        },
        "passed",
        "all green, and dependencies steer no test",
        "npm test",
        needs="npm",
        options=IN_JEST,
    ),
    Row(
        "a repair with a set-up file of its own",
        "jest",
        {
            "m.js": MENDED,
            "support/env.js": "global.three = 3;\n",
            "b.test.js": "const {add} = require('./m');\ntest('new', () => expect(add(1, 2)).toBe(three));\n",
        },
        "passed",
        "the base's tests are green without it",
        "npm test",
        "tests_edited",
        needs="npm",
        options=IN_JEST,
        slow=True,
    ),
    Row(
        "a repair of assertions in node",
        "node asserting",
        {"index.js": INDEX.replace("-", "+")},
        "passed",
        "all green",
        "npm test",
        needs="npm",
        slow=True,
    ),
    Row("a repair behind make", "made", {"m.py": SUBTRACTING.replace("-", "+")}, "passed", "exit code 0", "make test"),
    Row(
        "a repair behind a script of a script",
        "scripts",
        {"m.py": SUBTRACTING.replace("-", "+")},
        "passed",
        "exit code 0",
        "sh ci.sh",
    ),
    Row(
        "a repair with a new version of the crate",
        "rust",
        {"Cargo.toml": CARGO.replace("0.1.0", "0.2.0"), "src/lib.rs": RUST.format(1, 1)},
        "passed",
        "only what steers tests goes back",
        CARGO_TEST,
        needs="cargo",
        slow=True,
    ),
]
