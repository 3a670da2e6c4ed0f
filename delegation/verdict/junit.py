"""Test ids from JUnit XML as pytest (`xunit1`) and node's runner write it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import ParseError

from junitparser import Error, Failure, JUnitXml, JUnitXmlError, Skipped, TestCase, TestSuite

from delegation.receipt import TestStatus

_WORST: tuple[TestStatus, ...] = ("passed", "skipped", "failed", "error")
_NameOf = Callable[[TestCase, tuple[str, ...]], str]
_REPORT_BYTES = 64 * 1024 * 1024  # what a report may weigh; a run with more is judged by its exit code


def pytest_results(report: Path, checkout: Path) -> dict[str, TestStatus] | None:
    """Status by pytest node id (`tests/test_a.py::TestB::test_x[1]`); None where there is no readable report."""
    return _results(report, lambda case, _: _pytest_id(case, checkout))


def node_results(report: Path, checkout: Path) -> dict[str, TestStatus] | None:
    """Status by `suite > test`; a file that could not be loaded is named by its path in the checkout."""
    return _results(report, lambda case, suites: " > ".join((*suites, _relative(case.name or "?", checkout))))


def _results(report: Path, name_of: _NameOf) -> dict[str, TestStatus] | None:
    try:
        if report.stat().st_size > _REPORT_BYTES:
            return None
        parsed = JUnitXml.fromfile(str(report))
    except (OSError, ParseError, JUnitXmlError, ValueError):
        return None
    found: dict[str, TestStatus] = {}
    for case, suites in _cases(parsed, ()):
        name = name_of(case, suites)
        found[name] = worse(found.get(name, "passed"), _status(case))
    return found


def _cases(parent: JUnitXml | TestSuite, suites: tuple[str, ...]) -> Iterator[tuple[TestCase, tuple[str, ...]]]:
    for child in parent._elem:
        if child.tag == "testcase" and (case := TestCase.fromelem(child)) is not None:
            yield case, suites
        elif child.tag == "testsuite" and (suite := TestSuite.fromelem(child)) is not None:
            yield from _cases(suite, (*suites, child.get("name") or "?"))


def worse(one: TestStatus, other: TestStatus) -> TestStatus:
    return one if _WORST.index(one) > _WORST.index(other) else other


def _status(case: TestCase) -> TestStatus:
    kinds = {type(result) for result in case.result}
    if Error in kinds:
        return "error"
    if Failure in kinds:
        return "failed"
    return "skipped" if Skipped in kinds else "passed"


def _pytest_id(case: TestCase, checkout: Path) -> str:
    """pytest writes the node id with dots: the file comes from `file`, else from what exists in the checkout."""
    name, dotted = case.name or "", case.classname or ""
    file = case._elem.get("file")
    if not dotted:  # a file that could not be collected is a case without a class, named by its module
        return file or _file_of(name, checkout) or name
    if file and _is_under(dotted, _dotted(file)):
        classes = dotted[len(_dotted(file)) :].strip(".")
    else:  # an inherited test: `file` is where the function stands, not where it was collected
        file = _file_of(dotted, checkout)
        if file is None:
            return f"{dotted}::{name}"
        classes = dotted[len(_dotted(file)) :].strip(".")
    return "::".join((file, *(part for part in classes.split(".") if part), name))


def _file_of(dotted: str, checkout: Path) -> str | None:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        path = PurePosixPath(*parts[:length])
        if (checkout / f"{path}.py").is_file():
            return f"{path}.py"
    return None


def _dotted(file: str) -> str:
    return re.sub(r"\.py$", "", file.replace("\\", "/")).replace("/", ".")


def _is_under(dotted: str, module: str) -> bool:
    return dotted == module or dotted.startswith(f"{module}.")


def _relative(name: str, checkout: Path) -> str:
    path = Path(name)
    return path.relative_to(checkout).as_posix() if path.is_absolute() and path.is_relative_to(checkout) else name
