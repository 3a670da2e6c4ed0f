"""The change under judgement: the whole of it, and what is left when nothing that judges may come from it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from delegation.checkout.patch import apply_in
from delegation.errors import WorkFailed
from delegation.verdict.conditions import Conditions
from delegation.verdict.edits import Change, Edits, changes_of, edits_of, scripts_of
from delegation.verdict.runners import called_texts
from delegation.verdict.tables import read_or_none, restore_in, restored


@dataclass
class Candidate:
    """A patch file. What it edits is known once it was applied for the first time, to a checkout of the base."""

    file: Path
    conditions: Conditions
    tests: frozenset[str]  # ids of the base's tests
    _changes: tuple[Change, ...] = ()
    _edits: Edits = field(default_factory=lambda: Edits((), (), (), ()))
    _steering: dict[str, str | None] = field(
        default_factory=dict[str, str | None]
    )  # base text of partly steering files
    _steered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Read the patch. Raises WorkFailed("checkout") when it is none."""
        try:
            self._changes = changes_of(self.file.read_bytes())
        except (OSError, ValueError) as error:
            raise WorkFailed("checkout", f"cannot read the patch {str(self.file)!r}: {error}") from error

    @property
    def edited(self) -> tuple[str, ...]:
        """Paths whose change touches tests or what steers them."""
        return tuple(sorted({*self._edits.names, *self._steered}))

    @property
    def new_tests(self) -> tuple[str, ...]:
        return tuple(change.path for change in self._edits.new_tests)

    def apply(self, checkout: Path) -> None:
        """Apply the whole patch to a checkout of the base. Raises WorkFailed("checkout")."""
        self._edits = edits_of(self._changes, judges=self._judges(checkout), workdir=self.conditions.workdir)
        self._steering = {path: read_or_none(checkout / path) for path in self._edits.partial}
        apply_in(checkout, self.file)
        self._steered = tuple(path for path, base in self._steering.items() if _is_steered(checkout / path, base))

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

    def _judges(self, checkout: Path) -> frozenset[str]:
        """Files of the base that judge: those its tests are named by, and scripts that the command calls."""
        folder = checkout / self.conditions.workdir
        texts = (self.conditions.command, *called_texts(self.conditions.command, folder))
        scripts = _existing((name for text in texts for name in scripts_of(text, self.conditions.workdir)), checkout)
        return _existing((test.split("::")[0].split(" > ")[0] for test in self.tests), checkout) | scripts


def _existing(names: Iterable[str], checkout: Path) -> frozenset[str]:
    return frozenset(name for name in names if len(name) < 1000 and (checkout / name).is_file())


def _is_steered(place: Path, base: str | None) -> bool:
    candidate = read_or_none(place)
    return restored(place.name, base, candidate) != candidate
