"""Signs that a run says nothing."""

import os
from pathlib import Path

import pytest

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
