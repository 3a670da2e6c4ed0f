"""The change under judgement: the whole of it, and what is left when nothing that judges may come from it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from delegation.checkout.patch import apply_in
from delegation.errors import WorkFailed
from delegation.verdict.conditions import Conditions
from delegation.verdict.doctests import changed_examples, has_examples, is_doctest
from delegation.verdict.edits import Change, Edits, changes_of, edits_of, is_test_path
from delegation.verdict.liars import new_liars
from delegation.verdict.scripts import called_files
from delegation.verdict.tables import read_or_none, restore_in, restored
from delegation.verdict.tampering import ends_the_interpreter


@dataclass
class Candidate:
    """A patch file. What it edits is known once it was applied for the first time, to a checkout of the base."""

    file: Path
    conditions: Conditions
    tests: frozenset[str]  # ids of the base's tests
    _changes: tuple[Change, ...] = ()
    _edits: Edits = field(default_factory=Edits)
    _steering: dict[str, str | None] = field(
        default_factory=dict[str, str | None]
    )  # base text of files that also steer
    _steered: tuple[str, ...] = ()
    _doctests: tuple[str, ...] = ()
    _ending: tuple[str, ...] = ()
    _liars: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Read the patch. Raises WorkFailed("checkout") when it is none."""
        try:
            self._changes = changes_of(self.file.read_bytes())
        except (OSError, ValueError) as error:
            raise WorkFailed("checkout", f"cannot read the patch {str(self.file)!r}: {error}") from error

    @property
    def edited(self) -> tuple[str, ...]:
        """Paths whose change touches tests or what steers them."""
        return tuple(sorted({*self._edits.names, *self._steered, *self._doctests}))

    @property
    def new_tests(self) -> tuple[str, ...]:
        return tuple(change.path for change in self._edits.new_tests)

    @property
    def changed_doctests(self) -> tuple[str, ...]:
        """Source files whose examples are run as tests and were edited or removed: no run can tell why."""
        return self._doctests

    @property
    def ending(self) -> tuple[str, ...]:
        """Python files that newly end the program when they are loaded: an exit code of 0 then says nothing."""
        return self._ending

    @property
    def liars(self) -> tuple[str, ...]:
        """Methods of the source that newly give every comparison the same answer, each with its file."""
        return self._liars

    @property
    def is_only_tests(self) -> bool:
        """Without what touches the judges nothing is left of the patch: the rest is the base."""
        return not self._edits.kept and (bool(self.tests) or not self._edits.new_tests)

    @property
    def edits_tests_only(self) -> bool:
        """Whether all it edits of the judges are tests of the base, and nothing that steers them."""
        return not self._steered and len(self._edits.withheld) == len(self._edits.old_tests)

    @property
    def unclear(self) -> tuple[str, ...]:
        """Edited files that the command runs and that may be what is to be judged."""
        return tuple(change.path for change in self._edits.unclear)

    def rewrites(self, test: str) -> bool:
        """Whether the patch edits the file of that test of the base, or data that lies with it."""
        paths = (path for change in self._edits.old_tests for path in change.paths)
        return any(_may_be_in(test, PurePosixPath(path)) for path in (*paths, *self._steered_sources()))

    def apply(self, checkout: Path) -> None:
        """Apply the whole patch to a checkout of the base. Raises WorkFailed("checkout")."""
        called = called_files(self.conditions.command, checkout, self.conditions.workdir)
        sources = _doctest_sources(self.tests, checkout)
        judges = (self._test_files(checkout) - sources) | called.judging
        self._edits = edits_of(
            self._changes, judges=judges, unclear=called.unclear - judges - sources, workdir=self.conditions.workdir
        )
        self._steering = {path: read_or_none(checkout / path) for path in self._edits.partial}
        python = {change.path for change in self._edits.kept if change.path.endswith(".py")}
        before = {path: read_or_none(checkout / path) for path in (*sources, *python)}
        apply_in(checkout, self.file)
        self._steered = tuple(path for path, base in self._steering.items() if _is_steered(checkout / path, base))
        self._doctests = tuple(path for path in sources if changed_examples(before[path], checkout / path))
        after = {path: read_or_none(checkout / path) for path in sorted(python)}
        self._ending = tuple(path for path in python if ends_the_interpreter(before[path], after[path]))
        self._liars = new_liars((before[path] for path in python), after)

    def apply_without_edits(self, checkout: Path) -> None:
        """Apply the patch without what touches the judges.

        New tests are left out too where the base has tests of its own: those were judged in the other run, and here
        they could only change what the base's tests see.
        """
        reduced = self.conditions.place / "reduced.diff"
        reduced.write_bytes(self._edits.patch(with_new_tests=not self.tests))
        if reduced.stat().st_size:
            apply_in(checkout, reduced)
        restore_in(checkout, self._steering)

    def _test_files(self, checkout: Path) -> frozenset[str]:
        """Files of the base that its tests are named by. Rust keeps unit tests in the source: that is no judge."""
        names = {test.split("::")[0].split(" > ")[0] for test in self.tests}
        files = {name for name in names if not name.endswith(".rs") or is_test_path(name)}
        return frozenset(name for name in files if len(name) < 1000 and (checkout / name).is_file())

    def _steered_sources(self) -> Iterable[str]:
        return (path for path in self._steered if path.endswith(".rs"))


def _doctest_sources(tests: Iterable[str], checkout: Path) -> frozenset[str]:
    """Source files whose docstrings are tests: the file is what is judged, its examples judge."""
    found = {test.split("::")[0] for test in tests if is_doctest(test)}
    return frozenset(name for name in found if not is_test_path(name) and has_examples(checkout / name))


_NAMED_BY_FILE = frozenset({".py", ".rs"})


def _may_be_in(test: str, path: PurePosixPath) -> bool:
    """Whether a test may stand in that file, as far as runners name files; data counts for its whole test folder."""
    if not is_test_path(path.as_posix(), by_name=True):
        roots = [folder.as_posix() for folder in path.parents if folder.name]
        top = roots[-1] if roots else ""
        return test.startswith((f"{top}/", f"{top}.")) or not re.match(r"[\w./-]+(?:::|\.)", test)
    if test == path.as_posix() or test.startswith((f"{path.as_posix()}::", f"{path.as_posix()} > ")):
        return True
    if path.suffix not in _NAMED_BY_FILE:
        return True  # node and go do not say in which file a test stands
    parts = path.with_suffix("").parts
    return any(f"{test}.".startswith(".".join(parts[at:]) + ".") for at in range(len(parts)))


def _is_steered(place: Path, base: str | None) -> bool:
    candidate = read_or_none(place)
    return restored(place.name, base, candidate) != candidate
