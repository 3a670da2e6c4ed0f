"""Examples in docstrings that a runner takes for tests: they stand in the source, so they are compared as text."""

import ast
import doctest
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from delegation.verdict.tables import read_or_none


def is_doctest(test: str) -> bool:
    """pytest names an example by its file and the dotted name of what it stands in: `src/m.py::m.add`."""
    file, _, name = test.partition("::")
    parts = PurePosixPath(file).with_suffix("").parts
    modules = {".".join(parts[at:]) for at in range(len(parts))}
    return file.endswith(".py") and any(name == module or name.startswith(f"{module}.") for module in modules)


def has_examples(file: Path) -> bool:
    return bool(_examples(read_or_none(file)))


def changed_examples(base: str | None, candidate: Path) -> bool:
    """Whether an example of the base is gone or another answer is wanted of it."""
    return bool(_examples(base) - _examples(read_or_none(candidate)))


def _examples(text: str | None) -> set[tuple[str, str]]:
    try:
        found = [doctest.DocTestParser().get_examples(docstring) for docstring in _docstrings(text or "")]
    except (SyntaxError, ValueError):
        return set()  # what does not parse is not run either
    return {(example.source, example.want) for examples in found for example in examples}


def _docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
