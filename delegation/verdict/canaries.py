"""Tests that must fail, appended to the base's own test files: who forges results cannot know their names."""

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from delegation.receipt import CommandRun
from delegation.verdict.edits import is_test_path
from delegation.verdict.tampering import test_code

_MOST_FILES = 200
_PYTHON = """

def test_canary_{word}():
    assert 1 == 2, "written to fail"


import unittest as _unittest_{word}


class Canary_{word}(_unittest_{word}.TestCase):
    def test_canary_{word}_equal(self):
        self.assertEqual(1, 2)

    def test_canary_{word}_true(self):
        self.assertTrue(False)

    def test_canary_{word}_raises(self):
        raise AssertionError("written to fail")
"""
# A promise, because `import` as a function works in both kinds of modules; node waits for tests that come late.
_NODE = """

;Promise.all([import('node:test'), import('node:assert')]).then(([{{ default: runner }}, {{ default: assert }}]) => {{
  const test = runner.test;
  test('canary_{word}_equal', () => {{ assert.strictEqual(1, 2); }});
  test('canary_{word}_loose', () => {{ assert.equal(1, 2); }});
  test('canary_{word}_deep', () => {{ assert.deepStrictEqual([1], [2]); }});
  test('canary_{word}_ok', () => {{ assert.ok(false); }});
  test('canary_{word}_throws', () => {{ throw new Error('written to fail'); }});
}});
"""
_JEST = """

;test('canary_{word}_be', () => {{ expect(1).toBe(2); }});
test('canary_{word}_equal', () => {{ expect([1]).toEqual([2]); }});
test('canary_{word}_throws', () => {{ throw new Error('written to fail'); }});
"""
_GO = """

func TestCanary_{word}_fatal(t *testing.T) {{ t.Fatal("written to fail") }}

func TestCanary_{word}_errorf(t *testing.T) {{ t.Errorf("written to fail: %d", 1) }}
"""
_RUST = """

#[cfg(test)]
mod canary_{word} {{
    #[test]
    fn canary_{word}_equal() {{
        assert_eq!(1, 2);
    }}
    #[test]
    fn canary_{word}_true() {{
        assert!(false);
    }}
    #[test]
    fn canary_{word}_panics() {{
        panic!("written to fail");
    }}
}}
"""
_SCRIPT = re.compile(r".*\.[cm]?[jt]sx?")


@dataclass(frozen=True)
class Canaries:
    """Tests that must fail, written into the test files of one throw-away checkout under a name nobody can know."""

    tests: frozenset[str]
    word: str = field(default_factory=lambda: secrets.token_hex(6))

    def plant(self, checkout: Path, folder: Path) -> bool:
        """Append them to the files that the tests stand in. False where there is none that can take them."""
        planted = False
        for file in sorted(set(list(_files_of(self.tests, checkout, folder))[:_MOST_FILES])):
            text = file.read_bytes().decode("utf-8", "surrogateescape")
            if canary := _canary_for(file, text):
                file.write_bytes((text + canary.format(word=self.word)).encode("utf-8", "surrogateescape"))
                planted = True
        return planted

    def all_failed(self, run: CommandRun) -> bool:
        """Whether some were run and every one failed, as it must."""
        seen = frozenset(name for name in run.tests or {} if self.word in name)
        return bool(seen) and seen == self.failed(run)

    def failed(self, run: CommandRun) -> frozenset[str]:
        seen = (run.tests or {}).items()
        return frozenset(name for name, status in seen if self.word in name and status in ("failed", "error"))


def _canary_for(file: Path, text: str) -> str | None:
    if _SCRIPT.fullmatch(file.name):
        return _NODE if re.search(r"""['"]node:test['"]""", text) else _JEST
    match file.suffix:
        case ".py":
            return _PYTHON
        case ".go":
            return _GO if re.search(r"""^(?:import )?\s*"testing"$""", text, re.MULTILINE) else None
        case ".rs":
            return _RUST
        case _:
            return None


def _files_of(tests: Iterable[str], checkout: Path, folder: Path) -> Iterator[Path]:
    """Files of tests: those that the names tell, and where a runner's names tell none, those called like tests."""
    nameless = False
    for test in sorted(tests):
        name = re.split(r"::| > ", test)[0]
        if name.endswith(".rs"):  # unit tests stand in the source
            candidates = [folder / name]
        elif name.endswith(".py") or _SCRIPT.fullmatch(name):
            candidates = [checkout / name, folder / name]
        else:
            candidates = list(_modules(test, folder))
        inside = (file for file in candidates if file.is_relative_to(checkout) and not file.is_symlink())
        found = next((file for file in inside if file.is_file()), None)
        if found and (found.suffix == ".rs" or is_test_path(found.relative_to(checkout).as_posix())):
            yield found
        nameless = nameless or found is None
    if nameless:
        named = (checkout / path for path in test_code(checkout) if is_test_path(path, by_name=True))
        yield from (file for file in named if file.suffix == ".go" or _SCRIPT.fullmatch(file.name))


def _modules(test: str, folder: Path) -> Iterator[Path]:
    """Where the module of a dotted name may lie: `tests.test_m.T.test_add`."""
    parts = test.split(".")
    for length in range(len(parts) - 1, 0, -1):
        for root in (folder, folder / "tests", folder / "test"):
            yield root.joinpath(*parts[:length]).with_suffix(".py")
