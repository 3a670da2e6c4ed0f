"""Test ids from what a runner prints: unittest, go test, cargo test; and from jest's JSON file."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from delegation.receipt import TestStatus

_UNITTEST_START = re.compile(r"^(\S+) \(([\w.<>]+)\)(?: \[[^\]]*\])?(?: \([^)]*\))?(?: \.\.\. (.*))?$")
_UNITTEST_END = re.compile(r"(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
_UNITTEST_HEAD = re.compile(r"^(FAIL|ERROR|UNEXPECTED SUCCESS): (\S+) \(([\w.<>]+)\)")
_UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_GO_TEST = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(")
_GO_PACKAGE = re.compile(r"^(ok|FAIL|\?)\s+(\S+)\s+(.*)$")
_CARGO_BINARY = re.compile(r"^\s+(?:Running (?:unittests )?(\S+) \(|Doc-tests (\S+))")
_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (?:.*?)(ok|FAILED|ignored)(?:, .*)?$")


def unittest_results(output: str) -> dict[str, TestStatus] | None:
    """Status by dotted name from a verbose run; None when fewer tests are named than ran (no `-v`)."""
    ran = [int(count) for count in _UNITTEST_RAN.findall(output)]
    if not ran:
        return None
    found = dict(_unittest_cases(output))
    if not found and sum(ran):  # failures are named without `-v` too: a red run would have ids and a green one none
        return None
    for word, name, place in (match.groups() for match in map(_UNITTEST_HEAD.match, output.splitlines()) if match):
        found[_unittest_id(name, place)] = "error" if word == "ERROR" else "failed"
    return found if len(found) >= sum(ran) else None


def _unittest_cases(output: str) -> Iterator[tuple[str, TestStatus]]:
    current: str | None = None
    for line in output.splitlines():
        if line.startswith("====="):
            break
        start = _UNITTEST_START.match(line)
        if start:
            if current:
                yield current, "passed"  # only subtests spoke; the list of failures below corrects it
            current = _unittest_id(start[1], start[2])
        end = _UNITTEST_END.search(line)
        if current and end:
            yield current, _unittest_status(end[1])
            current = None


def _unittest_id(name: str, place: str) -> str:
    """Before Python 3.11 the brackets held the class only. A module or class that failed as a whole is named itself."""
    if "_FailedTest" in place:
        return name
    if name in ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule"):
        return place
    return place if place.endswith(f".{name}") else f"{place}.{name}"


def _unittest_status(word: str) -> TestStatus:
    if word in ("ok", "expected failure"):
        return "passed"
    if word.startswith("skipped"):
        return "skipped"
    return "error" if word == "ERROR" else "failed"


def go_results(output: str) -> dict[str, TestStatus] | None:
    """Status by `package/Test/subtest` from a verbose run; a package that does not build is an error of its own."""
    words: dict[str, TestStatus] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    found: dict[str, TestStatus] = {}
    pending: list[tuple[str, TestStatus]] = []
    seen_package = False
    for line in output.splitlines():
        if test := _GO_TEST.match(line):
            pending.append((test[2], words[test[1]]))
        elif package := _GO_PACKAGE.match(line):
            seen_package = True
            found.update({f"{package[2]}.{name}": status for name, status in pending})
            if package[1] == "FAIL" and not any(status == "failed" for _, status in pending):
                found[package[2]] = "error"
            pending = []
    return found if seen_package else None


def cargo_results(output: str) -> dict[str, TestStatus] | None:
    """Status by `source file::module::test`; None when nothing was compiled far enough to run."""
    words: dict[str, TestStatus] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
    found: dict[str, TestStatus] = {}
    binary: str | None = None
    for line in output.splitlines():
        if header := _CARGO_BINARY.match(line):
            binary = header[1] or f"doc {header[2]}"
        elif binary and (test := _CARGO_TEST.match(line)):
            found[f"{binary}::{test[1]}"] = words[test[2]]
    return found if binary else None


def jest_results(report: Path, checkout: Path) -> dict[str, TestStatus] | None:
    """Status by `file > suite > test` from jest's `--json --outputFile`."""
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        files = cast(list[dict[str, object]], content["testResults"])
        return dict(_jest_cases(files, checkout))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _jest_cases(files: list[dict[str, object]], checkout: Path) -> Iterator[tuple[str, TestStatus]]:
    words: dict[str, TestStatus] = {"passed": "passed", "failed": "failed"}
    for file in files:
        path = Path(str(file["name"]))
        name = path.relative_to(checkout).as_posix() if path.is_relative_to(checkout) else str(path)
        cases = cast(list[dict[str, object]], file["assertionResults"])
        if not cases and file.get("status") == "failed":
            yield name, "error"
        for case in cases:
            titles = cast(list[str], case.get("ancestorTitles") or [])
            yield " > ".join((name, *titles, str(case["title"]))), words.get(str(case["status"]), "skipped")
