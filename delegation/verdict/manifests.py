"""The parts of manifests (npm, Cargo, Go) that decide what is tested, by what, and against whose packages."""

import re
import tomllib
from collections.abc import Mapping
from typing import cast

_CARGO_TABLES = re.compile(
    r"(?:target\..+\.)?dev-dependencies\b.*|patch\b.*|replace|test|bench|lib|profile\.(?:test|dev|bench)\b.*"
)
_CARGO_TOP = ("dev-dependencies", "patch", "replace", "test", "bench", "lib")
_CARGO_KEYS = ("autotests", "autobenches", "autobins", "build")
_LOCAL_REPLACE = re.compile(r"^\s*(?:replace\s+)?(\S+(?:\s+v\S+)?\s+=>\s+\.{0,2}/\S*)\s*(?://.*)?$")
_NPM_PACKAGES = (
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "overrides",
    "resolutions",
)
_LOCAL_PACKAGE = re.compile(r"(?:file|link|portal):|\.{0,2}/|~/|.*\.t(?:ar\.)?gz$")


def local_packages(package: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """By table, the packages that a package.json takes from a folder or file: one could stand in for a runner."""
    found: dict[str, dict[str, object]] = {}
    for table in _NPM_PACKAGES:
        given = package.get(table)
        if isinstance(given, dict):
            named = cast(dict[str, object], given).items()
            found[table] = {name: spec for name, spec in named if _LOCAL_PACKAGE.match(str(spec))}
    return {table: packages for table, packages in found.items() if packages}


def with_local_packages(package: Mapping[str, object], base: Mapping[str, object]) -> dict[str, object]:
    """The package with every package that either takes from a folder as the base has it."""
    mended = dict(package)
    for table in _NPM_PACKAGES:
        names = {*local_packages(package).get(table, {}), *local_packages(base).get(table, {})}
        before = cast(dict[str, object], base.get(table) or {})
        after = cast(dict[str, object], mended.get(table) or {})
        kept = {name: spec for name, spec in after.items() if name not in names}
        if names:
            mended[table] = kept | {name: before[name] for name in names if name in before}
    return mended


def steers_cargo(header: str) -> bool:
    """Whether a table of Cargo.toml goes back to the base as a whole."""
    return _CARGO_TABLES.fullmatch(header) is not None


def cargo_tables(text: str) -> dict[str, object]:
    """What of a Cargo.toml steers: targets and harness of tests, their packages, replaced packages, profiles, scripts.

    Raises ValueError for what is no TOML.
    """
    read = tomllib.loads(text)
    package = cast(dict[str, object], read.get("package", {}))
    profiles = cast(dict[str, object], read.get("profile", {}))
    targets = cast(dict[str, dict[str, object]], read.get("target", {}))
    found: dict[str, object] = {name: read[name] for name in _CARGO_TOP if name in read}
    found |= {f"package.{key}": package[key] for key in _CARGO_KEYS if key in package}
    found |= {f"profile.{name}": profiles[name] for name in ("test", "dev", "bench") if name in profiles}
    by_target = {name: table["dev-dependencies"] for name, table in targets.items() if "dev-dependencies" in table}
    return found | ({"target": by_target} if by_target else {})


def restored_go_mod(base: str, candidate: str) -> str:
    """The candidate's go.mod with the base's replacements by local folders: one could stand in for a test package."""
    before, after = _local_replaces(base), _local_replaces(candidate)
    if before == after:
        return candidate
    rest = [line for line in candidate.splitlines() if not _LOCAL_REPLACE.match(line)]
    return "\n".join([*rest, *(f"replace {line}" for line in before)]) + "\n"


def _local_replaces(text: str) -> list[str]:
    return sorted(" ".join(match[1].split()) for line in text.splitlines() if (match := _LOCAL_REPLACE.match(line)))
