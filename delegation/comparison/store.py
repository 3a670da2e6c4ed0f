"""Comparisons on disk: one folder each under the home, with the plan, and the reports once there are some.

<id>/comparison.json    the plan, written once
<id>/report.json, report.md, report.html    how it stood when they were written; the last ones tell of the end
"""

import contextlib
import os
import re
import tempfile
from pathlib import Path

from pydantic import ValidationError

from delegation.comparison.plan import Comparison
from delegation.comparison.report import ComparisonReport, report_of
from delegation.comparison.trials import Trials
from delegation.errors import ConflictError, NotFoundError, UsageError
from delegation.files import publish, text_or_none, told_of
from delegation.home import Home
from delegation.ids import COMPARISON_PREFIX, is_ending
from delegation.kept_keys import COMPARISON_FILE
from delegation.wrong_values import sentence

_ID = re.compile(r"cmp-[0-9a-z]{8,20}(-[0-9a-z]{4})?", re.ASCII)


def is_comparison_id(text: str) -> bool:
    """Whether the text is a whole id, and so may name a folder."""
    return _ID.fullmatch(text) is not None


class ComparisonStore:
    """Reads and writes the comparisons of one home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def folder(self, comparison_id: str) -> Path:
        """Raises UsageError for a text that is no id (it would name a file elsewhere)."""
        if not is_comparison_id(comparison_id):
            raise UsageError(
                f"{comparison_id[:80]!r} is not the id of a comparison: they begin with {COMPARISON_PREFIX!r}"
            )
        return self._home.comparisons / comparison_id

    def create(self, comparison: Comparison) -> Comparison:
        """Write the plan, or return the one that is there: the same key is the same comparison, however often and by
        how many it is asked for at once.

        Raises ConflictError when its key stands for another one, StackError when the home cannot be written.
        """
        self._home.make(self._home.comparisons)
        folder = self._home.make(self.folder(comparison.id))
        with told_of(folder):
            is_new = _written_once(folder / COMPARISON_FILE, comparison.model_dump_json(indent=1))
        found = comparison if is_new else self.read(comparison.id)
        if _asked(found) != _asked(comparison):
            raise ConflictError(
                f"the key {comparison.card.key!r} already stands for {found.id!r} with another card, other models or "
                "repeats: use another key"
            )
        return found

    def read(self, comparison_id: str) -> Comparison:
        """Raises NotFoundError where there is none, UsageError where it is damaged."""
        path = self.folder(comparison_id) / COMPARISON_FILE
        try:
            return Comparison.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotFoundError(
                f"no comparison {comparison_id!r} in {str(self._home.comparisons)!r}{self._newest()}"
            ) from None
        except ValidationError as error:
            raise UsageError(f"{str(path)!r} is damaged ({sentence(error, Comparison)}): compare anew") from error

    def ids(self) -> list[str]:
        """All ids, those begun last first."""
        if not self._home.comparisons.is_dir():
            return []
        found = self._home.comparisons.glob(f"*/{COMPARISON_FILE}")
        plans = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent.name for path in plans if is_comparison_id(path.parent.name)]

    def resolve(self, text: str) -> str:
        """The id that a person means: a whole id, a unique beginning or ending of one.

        Raises NotFoundError when nothing fits and UsageError when several do.
        """
        ids = self.ids()
        fitting = [name for name in ids if name == text] or [
            name for name in ids if text and (name.startswith(text) or is_ending(text, name))
        ]
        if len(fitting) > 1:
            raise UsageError(f"{text!r} fits {len(fitting)} comparisons, for example {fitting[0]!r}: give more of it")
        if not fitting:
            raise NotFoundError(f"no comparison {text!r} in {str(self._home.comparisons)!r}{self._newest()}")
        return fitting[0]

    def _newest(self) -> str:
        found = self.ids()[:3]
        return f"; the newest: {', '.join(found)}" if found else "; there is none yet"

    def report(self, trials: Trials) -> ComparisonReport:
        """How it stands, from the records; from its last report where records of a comparison that is over are gone."""
        fresh = report_of(trials)
        if fresh.is_over:
            return fresh
        kept = self._last_report(trials.comparison.id)
        return kept if kept is not None and kept.is_over else fresh

    def is_written(self, comparison_id: str) -> bool:
        """Whether the report of its end is on disk; that of an earlier, cancelled part is not."""
        kept = self._last_report(comparison_id)
        return kept is not None and kept.is_over

    def _last_report(self, comparison_id: str) -> ComparisonReport | None:
        text = text_or_none(self.folder(comparison_id) / "report.json")
        with contextlib.suppress(ValidationError):  # of another version of ours, which has other fields
            return ComparisonReport.model_validate_json(text) if text else None
        return None

    def publish(self, comparison_id: str, name: str, text: str) -> Path:
        """Write one of its reports; returns where it lies."""
        path = self.folder(comparison_id) / name
        with told_of(path):
            publish(path, text)
        return path


def _written_once(path: Path, text: str) -> bool:
    """Whether it was written now. Of several writers exactly one does, and no reader sees half of it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    return True


def _asked(comparison: Comparison) -> tuple[object, ...]:
    return comparison.card, comparison.models, comparison.repeats
