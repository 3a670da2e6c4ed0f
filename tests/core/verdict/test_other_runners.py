"""jest and go test, run for real: verdicts by test id."""

import shutil
from pathlib import Path

import pytest

JEST = Path(__file__).parents[3] / ".programs" / "jest" / "node_modules"
JEST_TEST = (
    "const {f} = require('./m');\ndescribe('f', () => {\n  test('one', () => expect(f()).toBe(1));\n"
    "  test.skip('later', () => {});\n});\ntest('two', () => {});\n"
)


@pytest.mark.skipif(not JEST.is_dir() or shutil.which("npm") is None, reason="needs npm and `make programs`")
def test_jest_tests_are_compared_by_name(bench):
    bench.commit(
        {"m.js": "exports.f = () => 2;\n", "a.test.js": JEST_TEST, "package.json": '{"scripts": {"test": "jest"}}'}
    )
    answer = bench.verify({"m.js": "exports.f = () => 1;\n"}, "npm test", setup=f"ln -s {JEST} node_modules")
    one = "a.test.js > f > one"
    assert answer.base.tests == {one: "failed", "a.test.js > f > later": "skipped", "a.test.js > two": "passed"}
    assert (answer.verdict, answer.fixed) == ("passed", (one,))


GO_TEST = (
    'package m\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {\n\tfor _, name := range []string{"a", "b"} {\n'
    "\t\tt.Run(name, func(t *testing.T) {\n\t\t\tif F() != 1 {\n\t\t\t\tt.Fatal(F())\n\t\t\t}\n\t\t})\n\t}\n}\n\n"
    "func TestTwo(t *testing.T) {}\n"
)


@pytest.mark.skipif(shutil.which("go") is None, reason="needs go")
def test_go_tests_are_compared_by_name(bench):
    source = "package m\n\nfunc F() int {{ return {} }}\n"
    bench.commit({"go.mod": "module example.org/m\n\ngo 1.19\n", "m.go": source.format(2), "m_test.go": GO_TEST})
    answer = bench.verify({"m.go": source.format(1)}, "go test ./...")
    fixed = ("example.org/m.TestOne", "example.org/m.TestOne/a", "example.org/m.TestOne/b")
    assert (answer.verdict, answer.fixed) == ("passed", fixed)
    assert answer.base.tests["example.org/m.TestTwo"] == "passed"
    broken = bench.verify({"m.go": "package m\n\nfunc F() int { return }\n"}, "go test ./...")
    assert (broken.verdict, broken.newly_failing) == ("failed", ("example.org/m",))
