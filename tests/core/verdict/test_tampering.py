"""Signs that a run says nothing."""

import os
from pathlib import Path

import pytest

from delegation.receipt import CommandRun, TestStatus
from delegation.verdict.canaries import Canaries
from delegation.verdict.doctests import changed_examples, has_examples, is_doctest
from delegation.verdict.tampering import ends_the_interpreter, rewritten, states


def test_a_test_file_that_is_written_over_is_seen_even_when_it_is_put_back(tmp_path: Path):
    for name in ("test_a.py", "test_b.py", "test_c.py", "conftest.py", "m.py"):
        (tmp_path / name).write_text("x = 1\n")
    before = states(tmp_path)
    status = (tmp_path / "test_a.py").stat()
    (tmp_path / "test_a.py").write_text("x = 2\n")
    (tmp_path / "test_a.py").write_text("x = 1\n")
    os.utime(tmp_path / "test_a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "test_b.py").unlink()
    (tmp_path / "m.py").write_text("x = 3\n")
    (tmp_path / "test_new.py").touch()
    assert rewritten(tmp_path, before) == ("test_a.py", "test_b.py")


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit\n",
        "raise SystemExit(0)\n",
        "import sys\nsys.exit()\n",
        "import os\nos._exit(0)\n",
        "exit(0)\n",
        "try:\n    exit(0)\nfinally:\n    pass\n",
    ],
)
def test_a_file_that_newly_ends_the_program_is_seen(text: str):
    assert ends_the_interpreter("x = 1\n", text)
    assert ends_the_interpreter(None, text)
    assert not ends_the_interpreter(text, text + "y = 2\n")


@pytest.mark.parametrize(
    "text", ["if __name__ == '__main__':\n    raise SystemExit(0)\n", "def f():\n    exit(1)\n", "not python\n", None]
)
def test_a_file_that_ends_the_program_only_when_asked_is_fine(text: str | None):
    assert not ends_the_interpreter("x = 1\n", text)


def run_of(tests: dict[str, TestStatus]) -> CommandRun:
    return CommandRun(verdict="failed", exit_code=1, seconds=1.0, tests=tests, output_tail="")


def test_canaries_go_into_the_files_of_the_tests_under_a_name_of_their_own(tmp_path: Path):
    for name in ("sub/tests/test_a.py", "sub/tests/test_b.py", "sub/tests/test_c.py", "sub/m.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1")
    tests = frozenset({"tests.test_a.T.test_x", "sub/tests/test_b.py::test_y", "../../x.py::test", "one", "m.T.test"})
    canaries = Canaries(tests)
    assert canaries.plant(tmp_path, tmp_path / "sub")
    changed = [path.name for path in sorted(tmp_path.rglob("*.py")) if canaries.word in path.read_text()]
    assert changed == ["test_a.py", "test_b.py"]
    assert Canaries(tests).word != canaries.word
    assert not Canaries(frozenset({"one"})).plant(tmp_path, tmp_path)


def test_every_canary_that_ran_must_have_failed():
    canaries = Canaries(frozenset())
    one, two = f"t::test_canary_{canaries.word}", f"t::test_canary_{canaries.word}_equal"
    assert canaries.all_failed(run_of({one: "failed", two: "error", "t::test_a": "passed"}))
    assert not canaries.all_failed(run_of({one: "failed", two: "passed"}))
    assert not canaries.all_failed(run_of({"t::test_a": "failed"}))
    assert canaries.failed(run_of({one: "failed", two: "passed"})) == {one}


EXAMPLE = 'def f():\n    """Say.\n\n    >>> f()\n    {}\n    """\n    return {}\n'


def test_an_example_that_wants_another_answer_is_a_changed_one(tmp_path: Path):
    file = tmp_path / "m.py"
    file.write_text(EXAMPLE.format(1, 2))
    assert has_examples(file)
    assert not changed_examples(EXAMPLE.format(1, 1), file)
    assert changed_examples(EXAMPLE.format(2, 1), file)
    assert changed_examples(EXAMPLE.format(1, 1), tmp_path / "gone.py")


def test_examples_are_told_from_tests_by_their_name():
    assert is_doctest("src/pkg/m.py::pkg.m.f")
    assert is_doctest("m.py::m")
    assert not is_doctest("pkg/check_a.py::test_f")
    assert not is_doctest("tests.test_m.T.test_m")
