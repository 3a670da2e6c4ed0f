"""What a patch does to the things that judge it: tests, their configuration, and files that hijack an interpreter."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["added", "edited", "deleted"]

_MOCKS = "__mocks__"  # jest puts what lies there in the place of installed packages, unasked
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testdata", "__snapshots__", _MOCKS})
_TEST_FILE = re.compile(
    r"test_.*\.py|.*_test\.(?:py|go|rb|exs|cc|cpp|c|rs)|tests?\.rs|.*\.(?:test|spec)\.[cm]?[jt]sx?|.*Tests?\.(?:java|kt|cs)|.*_spec\.rb"
)
_CONFIGURATION = re.compile(
    r"\.?pytest\.(?:ini|toml)|tox\.(?:ini|toml)|noxfile\.py|\.coveragerc|(?:GNU)?[Mm]akefile|.*\.mk|[Jj]ustfile|Taskfile\.ya?ml"
    r"|(?:jest|vitest|karma|ava|babel|playwright)\.config\..*|\.mocharc.*|\.jestrc.*|\.npmrc|nextest\.toml"
    r"|\.python-version|\.tool-versions|\.?mise\.toml|uv\.toml|rust-toolchain(?:\.toml)?|\.nvmrc|\.node-version"
    r"|\.yarnrc(?:\.ya?ml)?|\.pnpmfile\.c?js|\.pnp\..*|node\.config\.json|\.babelrc.*|\.(?:c8|nyc|tap)rc.*|Rakefile|\.rspec"
    r"|(?:jest|vitest|mocha|karma|ava|tests?)[._-]?[Ss]etup(?:[._-]\w+)*\.[cm]?[jt]sx?"
    r"|setup[._-]?(?:[Jj]est|[Vv]itest|[Mm]ocha|[Tt]ests?|[Ee]nv)\.[cm]?[jt]sx?"
)
# Steers the build as well as the tests: whether a change needs it or hides behind it no run can say.
_UNCLEAR = re.compile(
    r"build\.rs|(?:vite|webpack|rollup)\.config\..*|vitest\.workspace\..*|tsconfig.*\.json|deno\.jsonc?|\.swcrc|bunfig\.toml"
    r"|(?:turbo|nx|lerna)\.json|pnpm-workspace\.yaml|go\.work|[Gg]runtfile\..*|[Gg]ulpfile\..*"
)
_UNCLEAR_FOLDER = "vendor"
# Run while things are set up or built; of these only changes that speak of tests, or of packages in local folders.
_UNCLEAR_LINES = (
    (re.compile(r"setup\.py|hatch_build\.py"), re.compile(rb"")),
    (
        re.compile(
            r"CMakeLists\.txt|.*\.cmake|meson\.build|build\.gradle(?:\.kts)?|pom\.xml|build\.sbt|mix\.exs|composer\.json"
            r"|BUILD(?:\.bazel)?|.*\.(?:cs|fs)proj|Package\.swift"
        ),
        re.compile(rb"(?im)^[+-].*test"),
    ),
    (re.compile(r".*(?:requirements|constraints).*\.txt|Pipfile"), re.compile(rb"(?m)^[+-].*(?:file:|\.{1,2}/|-e\s)")),
)
_INSTALLED = frozenset(  # what a setup puts there, no agent
    {".venv", "venv", "node_modules", ".cargo", ".tox", ".nox", ".yarn"}
)
_PROGRAMS = re.compile(
    r"(?:python[\d.]*|pytest|py\.test|node|npm|npx|yarn|pnpm|jest|make|go|cargo|env|(?:ba|da)?sh)(?:\.(?:exe|cmd|bat))?"
)
_HIJACKERS = frozenset({"conftest", "sitecustomize", "usercustomize", "pytest", "_pytest", "py", "pluggy", "iniconfig"})
_PARTLY = re.compile(r"pyproject\.toml|setup\.cfg|package\.json|Cargo\.toml|go\.mod|\.env(?:\..+|rc)?|.+\.env|.+\.rs")
_HEADER = b"diff --git "


@dataclass(frozen=True)
class Change:
    """One file section of a patch. A rename is one section that deletes `old_path` and adds `path`."""

    path: str
    old_path: str
    kind: Kind
    section: bytes

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.path == self.old_path else (self.old_path, self.path)


@dataclass(frozen=True)
class Edits:
    """The changes of a patch that the second judgement leaves out."""

    withheld: tuple[Change, ...] = ()
    partial: tuple[str, ...] = ()  # files of which only the parts that steer or test go back to the base
    new_tests: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    old_tests: tuple[Change, ...] = ()  # those of `withheld` that are tests of the base, or data beside them
    unclear: tuple[Change, ...] = ()  # those of `withheld` that the command runs and that may be what is judged

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({path for change in self.withheld for path in change.paths}))

    def patch(self, *, with_new_tests: bool) -> bytes:
        """The patch without what is withheld; empty when nothing is left of it."""
        return b"".join(change.section for change in (*self.kept, *(self.new_tests if with_new_tests else ())))


def changes_of(patch: bytes) -> tuple[Change, ...]:
    """The file sections of a git patch. Raises ValueError for a section whose paths cannot be read."""
    starts = [match.start() for match in re.finditer(rb"^diff --git ", patch, re.MULTILINE)]
    return tuple(_change(patch[start:end]) for start, end in zip(starts, [*starts[1:], len(patch)], strict=True))


def edits_of(
    changes: Iterable[Change], *, judges: frozenset[str], unclear: frozenset[str] = frozenset(), workdir: str = "."
) -> Edits:
    """Sort a patch's changes. `judges` are files known to judge: those the base's run named, and the command's scripts.

    A new test file is legitimate. An edited or deleted one, any configuration of tests, and any file that would be
    imported or run in the place of the runner or the standard library is withheld. `unclear` are files that the command
    runs and whose names do not say whether they judge or are judged.
    """
    sorted_out: dict[str, list[Change]] = {name: [] for name in ("steers", "test", "unclear", "partial", "new", "kept")}
    folders = _import_folders(judges, workdir)
    for change in changes:
        sorted_out[_sort(change, judges, unclear, folders)].append(change)
    steers, tests, open_, partial, new, kept = (tuple(group) for group in sorted_out.values())
    return Edits((*steers, *tests, *open_), tuple(item.path for item in partial), new, (*kept, *partial), tests, open_)


def _sort(change: Change, judges: frozenset[str], unclear: frozenset[str], folders: frozenset[str]) -> str:
    place = PurePosixPath(change.path)
    old_test = any(_is_old_test(path, change, judges) for path in change.paths)
    if _UNCLEAR.fullmatch(place.name):
        return "unclear"
    if _PARTLY.fullmatch(place.name) and change.path == change.old_path and not (old_test and place.suffix == ".rs"):
        return "partial"
    if any(_steers(PurePosixPath(path), change, folders) for path in change.paths):
        return "steers"
    if old_test:
        return "test"
    if unclear & set(change.paths) or _UNCLEAR_FOLDER in place.parts[:-1] or _is_unclear_by_line(place, change):
        return "unclear"
    return "new" if _runs_with_tests(place) else "kept"


def _is_unclear_by_line(place: PurePosixPath, change: Change) -> bool:
    return any(name.fullmatch(place.name) and line.search(change.section) for name, line in _UNCLEAR_LINES)


def _steers(place: PurePosixPath, change: Change, folders: frozenset[str]) -> bool:
    return (
        _hijacks(place, change, folders)
        or _CONFIGURATION.fullmatch(place.name) is not None
        or _PROGRAMS.fullmatch(place.name) is not None
        or any(part in _INSTALLED or part.endswith((".dist-info", ".egg-info")) for part in place.parts)
        or (_MOCKS in place.parts and change.kind == "added")
    )


def _is_old_test(path: str, change: Change, judges: frozenset[str]) -> bool:
    return path in judges or (is_test_path(path) and (change.kind != "added" or len(change.paths) > 1))


def is_test_path(path: str, *, by_name: bool = False) -> bool:
    """Whether runners usually find a test under that path; not `by_name` counts all that lies in a test folder."""
    place = PurePosixPath(path)
    return bool(_TEST_FILE.fullmatch(place.name)) or (not by_name and _is_in_test_folder(place))


def _runs_with_tests(place: PurePosixPath) -> bool:
    """A new file that a runner loads by itself beside the old tests, and that could so change what they see.

    Of Python each module in a folder of tests: that folder comes first on the path, so it may stand for a module of
    the source.
    """
    return bool(_TEST_FILE.fullmatch(place.name)) or (place.suffix == ".py" and _is_in_test_folder(place))


def _is_in_test_folder(place: PurePosixPath) -> bool:
    return bool(_TEST_FOLDERS & set(place.parts[:-1]))


def _hijacks(place: PurePosixPath, change: Change, folders: frozenset[str]) -> bool:
    """Whether Python would import this file in the place of something that decides over tests."""
    if place.suffix in (".pth", ".pyc") or place.name in ("conftest.py", "sitecustomize.py", "usercustomize.py"):
        return True
    for depth, part in enumerate(place.parts):
        name = part.split(".")[0] if depth == len(place.parts) - 1 else part
        is_module = place.suffix in (".py", ".pyc", ".so", ".pyd")
        folder = PurePosixPath(*place.parts[:depth]).as_posix()
        if is_module and folder in folders and (name in _HIJACKERS or (change.kind == "added" and _is_stdlib(name))):
            return True
    return False


def _is_stdlib(name: str) -> bool:
    return name in sys.stdlib_module_names and name not in ("test", "this", "antigravity", "__main__")


def _import_folders(judges: Iterable[str], workdir: str) -> frozenset[str]:
    """Folders that stand on sys.path in usual runs: the root, the workdir, source roots and the tests' own folders."""
    roots = {".", PurePosixPath(workdir).as_posix()}
    return frozenset(
        {*roots, *(PurePosixPath(root, name).as_posix() for root in roots for name in ("src", "lib", "tests", "test"))}
        | {PurePosixPath(path).parent.as_posix() for path in judges}
    )


def _change(section: bytes) -> Change:
    head = section.split(b"\n@@ ", 1)[0].split(b"\nGIT binary patch", 1)[0].split(b"\n")
    fields = {key: line[len(key) :] for line in head[1:] for key in _KEYS if line.startswith(key)}
    if b"rename from " in fields:
        old, new = _unquoted(fields[b"rename from "]), _unquoted(fields[b"rename to "])
        return Change(new, old, "edited", section)
    if b"copy to " in fields:
        new = _unquoted(fields[b"copy to "])
        return Change(new, new, "added", section)
    path = _header_path(head[0][len(_HEADER) :])
    kind: Kind = "added" if b"new file mode " in fields else "deleted" if b"deleted file mode " in fields else "edited"
    return Change(path, path, kind, section)


_KEYS = (b"rename from ", b"rename to ", b"copy to ", b"new file mode ", b"deleted file mode ")


def _header_path(names: bytes) -> str:
    """`a/P b/P` names one path twice; in quotes when it has odd characters."""
    if names.startswith(b'"'):
        first = re.match(rb'"((?:[^"\\]|\\.)*)"', names)
        if first is None:
            raise ValueError(f"unreadable patch header {names!r}")
        return _unquoted(first[0]).removeprefix("a/")
    half = names[: len(names) // 2]
    if names != half + b" b" + half[1:]:
        raise ValueError(f"unreadable patch header {names!r}")
    return _text(half).removeprefix("a/")


def _unquoted(name: bytes) -> str:
    if not (name.startswith(b'"') and name.endswith(b'"')):
        return _text(name)
    return _text(re.sub(rb"\\([0-7]{3}|.)", _unescaped, name[1:-1]))  # git quotes as C does


def _unescaped(match: re.Match[bytes]) -> bytes:
    named = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
    code = match[1]
    return bytes([int(code, 8)]) if len(code) == 3 else named.get(code, code)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
