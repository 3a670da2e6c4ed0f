"""Which test runner a command drives, and how to make it name its tests without changing what it does."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Literal

from delegation.receipt import TestStatus
from delegation.verdict.console import cargo_results, go_results, jest_results, unittest_results
from delegation.verdict.junit import node_results, pytest_results, worse
from delegation.verdict.scripts import called_texts

Runner = Literal["pytest", "unittest", "node", "jest", "go", "cargo"]

_WORDS: dict[Runner, re.Pattern[str]] = {
    "pytest": re.compile(r"(?<![\w-])(?:pytest|py\.test)(?=$|[\s;&|)\"'])"),
    "unittest": re.compile(r"-m\s+unittest\b"),
    "node": re.compile(r"\bnode\b[^\n;&|]*\s--test\b"),
    "jest": re.compile(r"(?:^|[\s/\"'])jest(?:\.js)?(?=$|[\s;&|)\"'])"),
    "go": re.compile(r"\bgo\s+test\b"),
    "cargo": re.compile(r"\bcargo\s+(?:\+\S+\s+)?(?:test|t)\b"),
}
_PYTEST_SUMMARY = re.compile(r"^(?:=+ )?\d+ [a-z]+(?:, \d+ [a-z]+)* in \d+\.\d+s\b", re.MULTILINE)
_UNITTEST_CALL = re.compile(r"-m\s+unittest(?:\s+discover)?(?=$|[\s;&|)])")
_MOST_NAMES = 200
_JEST_REPORT = "--json --outputFile="
_VERBOSE_UNITTEST = re.compile(r"(-m\s+unittest(?:\s+discover)?)(?=$|[\s;&|)])")


@dataclass(frozen=True)
class Instrumented:
    """The command as it is run: the same work, with the names of the tests left where `named_tests` finds them."""

    command: str
    runners: frozenset[Runner]
    reports: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    calls_of_pytest: int = 1  # as far as the command itself shows them; each has a report of its own


def runners_of(command: str, folder: Path) -> frozenset[Runner]:
    """The known runners a command calls, itself or through make, npm or a script of the checkout."""
    text = "\n".join((_without_installs(command), *called_texts(command, folder)))
    return frozenset(runner for runner, word in _WORDS.items() if word.search(text))


def instrument(
    command: str, *, folder: Path, reports: Path, node_major: int | None = None, go_on_after_errors: bool = False
) -> Instrumented:
    """Prepare a command to be run in `folder`; reports go to `reports`, a folder outside the checkout."""
    runners = runners_of(command, folder)
    env: dict[str, str] = {}
    if "-p no:junitxml" not in command:
        env["PYTEST_ADDOPTS"] = _pytest_options(command, reports, go_on_after_errors)
    if "go" in runners:
        env["GOFLAGS"] = "-v"
    if "node" in runners and (node_major or 0) >= 20 and "--test-reporter" not in command:
        env["NODE_OPTIONS"] = (
            "--test-reporter=spec --test-reporter-destination=stdout "
            f"--test-reporter=junit --test-reporter-destination={reports / 'node.xml'}"
        )
    text = command if re.search(r"\s(-v|-q|--verbose|--quiet)\b", command) else _VERBOSE_UNITTEST.sub(r"\1 -v", command)
    if "jest" in runners and "--json" not in text:
        text = _jest_with_report(text, reports / "jest.json")
    calls = _calls_of_pytest(command)
    if calls > 1 and not re.search(r"--junit-?xml", command) and re.fullmatch(r"[\w./-]+", str(reports)):
        text = _with_a_report_each(text, reports)
    return Instrumented(text, runners, reports, env, calls)


def narrowed(instrumented: Instrumented, names: frozenset[str]) -> Instrumented | None:
    """The same command for some tests alone; None where the runner cannot be told so, and for very many."""
    if not names or len(names) > _MOST_NAMES or len(instrumented.runners) != 1:
        return None
    if instrumented.runners == {"pytest"} and all("::" in name for name in names):
        return _narrowed_pytest(instrumented, names)
    if instrumented.runners == {"unittest"} and len(_UNITTEST_CALL.findall(instrumented.command)) == 1:
        chosen = " ".join(f"-k {name}" for name in sorted(names))
        is_plain = all(re.fullmatch(r"[\w.]+", name) for name in names)
        command = _UNITTEST_CALL.sub(lambda call: f"{call[0]} {chosen}", instrumented.command)
        return replace(instrumented, command=command) if is_plain else None
    return None


def _narrowed_pytest(instrumented: Instrumented, names: frozenset[str]) -> Instrumented | None:
    """By pytest's own memory of what failed last, which is ours to write: it lies beside the reports."""
    if instrumented.calls_of_pytest > 1 or re.search(r"no:cacheprovider|--l(?:f|ast-failed)", instrumented.command):
        return None
    memory = instrumented.reports / "pytest_cache" / "v" / "cache"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "lastfailed").write_text(json.dumps(dict.fromkeys(sorted(names), True)), encoding="utf-8")
    options = f"{instrumented.env.get('PYTEST_ADDOPTS', '')} --last-failed"
    return replace(instrumented, env=instrumented.env | {"PYTEST_ADDOPTS": options})


def chosen_by_word(instrumented: Instrumented, word: str) -> Instrumented:
    """The same command for the tests with that word in their name, as far as the runner can be told so."""
    env = dict(instrumented.env)
    for variable, option in (("PYTEST_ADDOPTS", f" -k {word}"), ("GOFLAGS", f" -run={word}")):
        if variable in env:
            env[variable] += option
    command = _UNITTEST_CALL.sub(lambda call: f"{call[0]} -k {word}", instrumented.command)
    return replace(instrumented, env=env, command=command.replace(_JEST_REPORT, f"-t {word} {_JEST_REPORT}"))


def named_tests(instrumented: Instrumented, *, folder: Path, output: str) -> dict[str, TestStatus] | None:
    """Status by test id, or None where the runners named no tests or several runs would hide one another."""
    if len(_PYTEST_SUMMARY.findall(output)) > max(instrumented.calls_of_pytest, 1):
        return None
    parts = [part for part in _parts(instrumented, folder, output) if part is not None]
    return {name: status for part in parts for name, status in part.items()} if parts else None


def _with_a_report_each(command: str, reports: Path) -> str:
    """Steps of one command would write over one another's report."""
    steps = re.split(r"(&&|\|\||[;|\n])", command)
    numbers = count()
    called = _WORDS["pytest"]

    def with_report(word: re.Match[str]) -> str:
        return f"{word[0]} --junitxml={reports}/pytest-{next(numbers)}.xml"

    return "".join(called.sub(with_report, step) if not _installs(step) else step for step in steps)


def _parts(instrumented: Instrumented, folder: Path, output: str) -> Iterator[dict[str, TestStatus] | None]:
    if instrumented.calls_of_pytest > 1:
        yield _several_results(instrumented, folder)
    else:
        yield pytest_results(_junit_path(instrumented, folder), folder)
    yield node_results(instrumented.reports / "node.xml", folder)
    yield jest_results(instrumented.reports / "jest.json", folder)
    if "unittest" in instrumented.runners:
        yield unittest_results(output)
    if "go" in instrumented.runners:
        yield go_results(output)
    if "cargo" in instrumented.runners:
        yield cargo_results(output)


def _several_results(instrumented: Instrumented, folder: Path) -> dict[str, TestStatus] | None:
    """The worst that any of the calls says of a test; None where they wrote no reports of their own."""
    reports = sorted(instrumented.reports.glob("pytest-*.xml"))
    found: dict[str, TestStatus] = {}
    for tests in (pytest_results(report, folder) for report in reports):
        for name, status in (tests or {}).items():
            found[name] = worse(found.get(name, "passed"), status)
    return found if reports else None


def _pytest_options(command: str, reports: Path, go_on_after_errors: bool) -> str:
    options = ["-o", "junit_family=xunit1", f"--junitxml={reports / 'pytest.xml'}"]
    if "no:cacheprovider" not in command:
        options += ["-o", f"cache_dir={reports / 'pytest_cache'}"]  # outside, and `--lf` and friends still work
    if go_on_after_errors:
        options.append("--continue-on-collection-errors")
    return shlex.join(options)


def _junit_path(instrumented: Instrumented, folder: Path) -> Path:
    """A command that asks for its own report wins over ours."""
    asked = re.search(r"--junit-?xml[=\s]+(\S+)", instrumented.command)
    return folder / asked[1].strip("\"'") if asked else instrumented.reports / "pytest.xml"


def _calls_of_pytest(command: str) -> int:
    return len(_WORDS["pytest"].findall(_without_installs(command)))


def _without_installs(command: str) -> str:
    steps = re.split(r"&&|\|\||[;|\n]", command)
    return " ; ".join(step for step in steps if not _installs(step))


def _installs(step: str) -> bool:
    return re.search(r"\b(?:install|add|sync)\b", step) is not None


def _jest_with_report(command: str, report: Path) -> str:
    options = f"{_JEST_REPORT}{shlex.quote(str(report))}"
    if _WORDS["jest"].search(command):
        return _WORDS["jest"].sub(lambda word: f"{word[0]} {options}", command, count=1)
    if re.fullmatch(r"\s*(?:npm|pnpm)\s+(?:run\s+)?(?:test|t)\s*", command):
        return f"{command.strip()} -- {options}"
    return command
