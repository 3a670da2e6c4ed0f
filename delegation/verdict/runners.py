"""Which test runner a command drives, and how to make it name its tests without changing what it does."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from delegation.receipt import TestStatus
from delegation.verdict.console import cargo_results, go_results, jest_results, unittest_results
from delegation.verdict.junit import node_results, pytest_results

Runner = Literal["pytest", "unittest", "node", "jest", "go", "cargo"]

_WORDS: dict[Runner, re.Pattern[str]] = {
    "pytest": re.compile(r"(?<![\w-])(?:pytest|py\.test)(?=$|[\s;&|)\"'])"),
    "unittest": re.compile(r"-m\s+unittest\b"),
    "node": re.compile(r"\bnode\b[^\n;&|]*\s--test\b"),
    "jest": re.compile(r"(?:^|[\s/\"'])jest(?=$|[\s;&|)\"'])"),
    "go": re.compile(r"\bgo\s+test\b"),
    "cargo": re.compile(r"\bcargo\s+(?:\+\S+\s+)?(?:test|t)\b"),
}
_PYTEST_SUMMARY = re.compile(r"^(?:=+ )?\d+ [a-z]+(?:, \d+ [a-z]+)* in \d+\.\d+s\b", re.MULTILINE)
_VERBOSE_UNITTEST = re.compile(r"(-m\s+unittest(?:\s+discover)?)(?=$|[\s;&|)])")
_SCRIPT_BYTES = 256 * 1024


@dataclass(frozen=True)
class Instrumented:
    """The command as it is run: the same work, with the names of the tests left where `named_tests` finds them."""

    command: str
    runners: frozenset[Runner]
    reports: Path
    env: dict[str, str] = field(default_factory=dict[str, str])


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
    return Instrumented(text, runners, reports, env)


def named_tests(instrumented: Instrumented, *, folder: Path, output: str) -> dict[str, TestStatus] | None:
    """Status by test id, or None where the runners named no tests or several runs would hide one another."""
    if _calls_of_pytest(instrumented.command) > 1 or len(_PYTEST_SUMMARY.findall(output)) > 1:
        return None
    parts = [part for part in _parts(instrumented, folder, output) if part is not None]
    return {name: status for part in parts for name, status in part.items()} if parts else None


def _parts(instrumented: Instrumented, folder: Path, output: str) -> Iterator[dict[str, TestStatus] | None]:
    yield pytest_results(_junit_path(instrumented, folder), folder)
    yield node_results(instrumented.reports / "node.xml", folder)
    yield jest_results(instrumented.reports / "jest.json", folder)
    if "unittest" in instrumented.runners:
        yield unittest_results(output)
    if "go" in instrumented.runners:
        yield go_results(output)
    if "cargo" in instrumented.runners:
        yield cargo_results(output)


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
    return " ; ".join(step for step in steps if not re.search(r"\b(?:install|add|sync)\b", step))


def _jest_with_report(command: str, report: Path) -> str:
    options = f"--json --outputFile={shlex.quote(str(report))}"
    if _WORDS["jest"].search(command):
        return _WORDS["jest"].sub(lambda word: f"{word[0]} {options}", command, count=1)
    if re.fullmatch(r"\s*(?:npm|pnpm)\s+(?:run\s+)?(?:test|t)\s*", command):
        return f"{command.strip()} -- {options}"
    return command


def called_texts(command: str, folder: Path) -> Iterator[str]:
    """The text of what the command calls: make targets, package scripts, script files."""
    words = re.split(r"[\s;&|()\"']+", command)
    if {"make", "gmake"} & set(words):
        yield from (_text(folder / name) for name in ("GNUmakefile", "makefile", "Makefile"))
    if {"npm", "pnpm", "yarn"} & set(words):
        yield _package_scripts(folder)
    yield from (_text(folder / word) for word in words if word and _is_inside(word))


def _package_scripts(folder: Path) -> str:
    try:
        scripts = json.loads(_text(folder / "package.json") or "{}").get("scripts", {})
        return "\n".join(str(script) for script in scripts.values())
    except (ValueError, AttributeError):
        return ""


def _is_inside(word: str) -> bool:
    return not word.startswith(("/", "-", "~")) and ".." not in word


def _text(path: Path) -> str:
    try:
        if path.is_file() and path.stat().st_size <= _SCRIPT_BYTES:
            return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    return ""
