"""What one finished command says about the content it ran on: passed, failed, or nothing, and why."""

import re
import signal
from collections.abc import Callable, Mapping

from delegation.process import Finished
from delegation.receipt import TestStatus, Verdict
from delegation.records.wording import fails
from delegation.verdict.observed import CANNOT_IMPORT, NO_TESTS
from delegation.verdict.runners import Runner

TIMEOUT = "timeout: "

# Exit codes 128+n that shells and make pass on for a child that died of signal n.
_DEADLY = frozenset({1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 15, 24, 25, 31})
_MAKE_CODE = re.compile(r"^make(?:\[\d+\])?: \*\*\* .*\bError (\d+)\s*$", re.MULTILINE)
_NO_MODULE = re.compile(r"^\S*python[\d.]*(?:\.exe)?: No module named '?([\w.]+)'?", re.MULTILINE)
_NOT_FOUND = re.compile(
    r"^(?:\S*sh|\S+: line \d+): (?:(?:line )?\d+: )?\S+: (?:command )?not found\s*$", re.MULTILINE
)  # as shells say it; "not found" alone is said by linters and tests too
_MISSING_IMPORT = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_TESTS = re.compile(
    r"no tests ran in |collected 0 items\s*$|^Ran 0 tests in |^NO TESTS RAN|^No tests found, exiting|^[#ℹ] tests 0\s*$",
    re.MULTILINE,
)
# A file or folder named like a target that is not phony: make then has nothing to do, and says so.
_NOTHING_TO_MAKE = re.compile(
    r"^g?make(?:\[\d+\])?: (?:[`'].+' is up to date\.|Nothing to be done for [`'].+'\.)$", re.MULTILINE
)
_NOT_FROM_MAKE = re.compile(r"^(?!g?make(?:\[\d+\])?: ).*\S", re.MULTILINE)


def judge(
    finished: Finished,
    *,
    output: str,
    tests: Mapping[str, TestStatus] | None,
    runners: frozenset[Runner],
    timeout_seconds: float,
    is_own_module: Callable[[str], bool],
) -> tuple[Verdict, str | None]:
    """The verdict of one run and its reason. Only a command that ended by itself and ran tests can judge.

    `is_own_module` tells whether a module that could not be imported belongs to the repository.
    """
    if finished.cancelled:
        return "none", "cancelled"
    if finished.timed_out:
        return "none", f"{TIMEOUT}no end after {timeout_seconds:g} s"
    if finished.too_many_processes:
        return "none", f"ended: more than {finished.too_many_processes} processes at once"
    if finished.disk_full:
        return "none", "ended because the disk is nearly full"
    if number := _signal_of(finished, output):
        return "none", f"killed by signal {number} ({signal.Signals(number).name})"
    if missing := _missing_tool(finished, output, tests):
        return "none", missing
    if _ran_nothing(finished, output, tests, runners):
        return "none", NO_TESTS
    if tests and all(status == "skipped" for status in tests.values()) and finished.exit_code == 0:
        return "none", f"{NO_TESTS}: all {len(tests)} were skipped"
    return _by_result(finished, output, tests, is_own_module)


def _by_result(
    finished: Finished, output: str, tests: Mapping[str, TestStatus] | None, is_own_module: Callable[[str], bool]
) -> tuple[Verdict, str | None]:
    failing = [name for name, status in (tests or {}).items() if status in ("failed", "error")]
    if finished.exit_code == 0:
        return ("failed", f"{fails(len(failing))} although the command exits 0") if failing else ("passed", None)
    foreign = sorted({name.split(".")[0] for name in _MISSING_IMPORT.findall(output)})
    ran = any(status in ("passed", "failed") for status in (tests or {}).values())
    if foreign and not ran and not any(is_own_module(name) for name in foreign):
        return "failed", f"{CANNOT_IMPORT}no module named {', '.join(map(repr, foreign))}"
    return "failed", fails(len(failing)) if failing else f"exit code {finished.exit_code}"


def _signal_of(finished: Finished, output: str) -> int | None:
    if finished.signal:
        return finished.signal
    code = _innermost_code(finished, output)
    return code - 128 if code is not None and code - 128 in _DEADLY else None


def _innermost_code(finished: Finished, output: str) -> int | None:
    """make ends with 2 whatever happened beneath it and prints the real code."""
    printed = _MAKE_CODE.findall(output)
    return int(printed[-1]) if finished.exit_code == 2 and printed else finished.exit_code


def _missing_tool(finished: Finished, output: str, tests: Mapping[str, TestStatus] | None) -> str | None:
    code = _innermost_code(finished, output)
    if code not in (0, None) and not tests and (module := _NO_MODULE.search(output)):
        return f"missing tool: no module named {module[1]!r}"
    if code == 127:
        said = _NOT_FOUND.search(output)
        return f"missing tool: {said[0].strip()}" if said else "missing tool: exit code 127"
    if code == 126:
        return "missing tool: exit code 126, found but not executable"
    if code not in (0, None) and not tests and (said := _NOT_FOUND.search(output)):
        return f"missing tool: {said[0].strip()}"
    return None


def _ran_nothing(
    finished: Finished, output: str, tests: Mapping[str, TestStatus] | None, runners: frozenset[Runner]
) -> bool:
    if tests is not None:
        return not tests
    if finished.exit_code == 0 and _NOTHING_TO_MAKE.search(output) and not _NOT_FROM_MAKE.search(output):
        return True
    if "pytest" in runners and finished.exit_code == 5:
        return True
    return bool(runners) and _NO_TESTS.search(output) is not None
