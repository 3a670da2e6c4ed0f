"""Give files that steer tests among other things their base parts back, and leave the rest as the agent wants it.

Tables of configuration, lines of an environment file, and the `#[cfg(test)]` modules of a Rust source.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from delegation.verdict.manifests import (
    cargo_tables,
    local_packages,
    restored_go_mod,
    steers_cargo,
    with_local_packages,
)

_STEERING_TABLE = re.compile(
    r"(?:tool[.:])?(?:pytest|coverage|tox|nox|hatch\.envs|pdm\.scripts|poe|taskipy)\b.*|project\.entry-points\.pytest11|build-system|testenv.*|aliases|nosetests"
)
_STEERING_LINE = re.compile(
    r"\s*(?:export\s+)?(?:PYTEST\w*|PYTHON\w*|NODE\w*|GO[A-Z]+|CARGO\w*|RUST\w*|JEST\w*|MAKE\w*|LD_\w+|PATH|SHELL|BASH_ENV|ENV)"
    r"\s*[:?+]?="
)
_RUST_TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod \w+ \{\n.*?^\}\n?", re.MULTILINE | re.DOTALL)
_STEERING_KEYS = ("scripts", "jest", "mocha", "ava", "vitest", "c8", "nyc", "tap", "babel", "wireit")


def restored(name: str, base: str | None, candidate: str | None) -> str | None:
    """The candidate's text with the base's test tables; None for no file. The same text when they did not differ."""
    if base == candidate:
        return candidate
    if candidate is None:
        return base
    if name == "package.json":
        return _restored_package(base or "{}", candidate)
    if name.endswith(".rs"):
        return _restored_rust(base or "", candidate)
    if re.fullmatch(r"\.env.*|.+\.env", name):
        return _restored_environment(base or "", candidate)
    if name == "go.mod":
        return restored_go_mod(base or "", candidate)
    if name == "Cargo.toml":
        return restored_tables(base or "", candidate, cargo_tables, steers_cargo)
    reader = _toml_tables if name.endswith(".toml") else _ini_tables
    return restored_tables(base or "", candidate, reader, _steers)


def _restored_package(base: str, candidate: str) -> str:
    try:
        before = cast(dict[str, object], json.loads(base))
        after = cast(dict[str, object], json.loads(candidate))
    except ValueError:
        return base
    if _steering(before) == _steering(after) and local_packages(before) == local_packages(after):
        return candidate
    rest = {key: value for key, value in after.items() if key not in _STEERING_KEYS}
    return json.dumps(with_local_packages(rest | _steering(before), before), indent=2) + "\n"


def _restored_rust(base: str, candidate: str) -> str:
    """The base's test modules in the place of the candidate's. Read as rustfmt leaves them; others are not seen."""
    before, after = _RUST_TESTS.findall(base), _RUST_TESTS.findall(candidate)
    if before == after or not before:
        return candidate
    return "".join([_closed(_RUST_TESTS.sub("", candidate)), *(_closed(block) for block in before)])


def _restored_environment(base: str, candidate: str) -> str:
    before = [line for line in base.splitlines() if _STEERING_LINE.match(line)]
    after = candidate.splitlines()
    if before == [line for line in after if _STEERING_LINE.match(line)]:
        return candidate
    return "".join(f"{line}\n" for line in (*(line for line in after if not _STEERING_LINE.match(line)), *before))


def _steering(package: Mapping[str, object]) -> dict[str, object]:
    return {key: package[key] for key in _STEERING_KEYS if key in package}


def restored_tables(
    base: str, candidate: str, read: Callable[[str], dict[str, object]], steers: Callable[[str], bool]
) -> str:
    """Exchange whole sections of text; where that does not give exactly what is wanted, the base's file."""
    try:
        before, after = read(base), read(candidate)
        if before == after:
            return candidate
        merged = "".join(
            [*(text for name, text in _sections(candidate) if not steers(name))]
            + [_closed(text) for name, text in _sections(base) if steers(name)]
        )
        return merged if read(merged) == before else base
    except (ValueError, configparser.Error):
        return base


def _sections(text: str) -> list[tuple[str, str]]:
    """Header name and text of each section, the part before the first header under an empty name."""
    pieces = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    return [(_header(piece), _closed(piece)) for piece in pieces if piece]


def _header(piece: str) -> str:
    match = re.match(r"\[+\s*([^\]\n]+?)\s*\]+", piece)
    return match[1].replace('"', "").replace("'", "") if match else ""


def _closed(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _steers(header: str) -> bool:
    return _STEERING_TABLE.fullmatch(header) is not None


def _toml_tables(text: str) -> dict[str, object]:
    read = tomllib.loads(text)
    tool = cast(dict[str, object], read.get("tool", {}))
    names = ("pytest", "coverage", "tox", "nox", "poe", "taskipy")
    found = {name: tool[name] for name in names if name in tool}
    for outer, inner in (("hatch", "envs"), ("pdm", "scripts")):
        table = tool.get(outer)
        if isinstance(table, dict) and inner in table:
            found[f"{outer}.{inner}"] = cast(dict[str, object], table)[inner]
    points = cast(dict[str, object], cast(dict[str, object], read.get("project", {})).get("entry-points", {}))
    found |= {"build-system": read["build-system"]} if "build-system" in read else {}
    return found | ({"pytest11": points["pytest11"]} if "pytest11" in points else {})


def _ini_tables(text: str) -> dict[str, object]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections() if _steers(name)}


def restore_in(checkout: Path, base_texts: Mapping[str, str | None]) -> tuple[str, ...]:
    """Restore the steering tables of these files of a checkout. Returns the files in which they had been changed."""
    changed: list[str] = []
    for path, base in base_texts.items():
        place = checkout / path
        candidate = read_or_none(place)
        text = restored(place.name, base, candidate)
        if text != candidate:
            changed.append(path)
            if text is not None and not place.is_symlink():
                place.write_bytes(text.encode("utf-8", "surrogateescape"))
    return tuple(changed)


def read_or_none(path: Path) -> str | None:
    """The text of a plain file (a link is never followed); None where there is none."""
    if path.is_symlink() or not path.is_file():
        return None
    return path.read_bytes().decode("utf-8", "surrogateescape")
