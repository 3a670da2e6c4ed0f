"""Which flow runs were taken up again after their process was gone, and how far each had come by then.

A run is given up only when it dies without progress since its last death. That bounds what kills its process every
time. An end with the whole stack, which somebody asked for, does not count as a death.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from delegation.agents.trajectory import Trajectory
from delegation.errors import DelegateError
from delegation.files import publish, text_or_none
from delegation.ids import is_id
from delegation.records import RecordStore
from deployments.places import Places

MOST_STARTS = 5
"""How often a run may be sent to start again without getting as far as running."""
_MOST = 1000
_LOST, _WITH_THE_STACK, _AT, _RUNS, _STARTS = "lost", "ended with the stack", "progress", "runs", "starts"


@dataclass(frozen=True)
class Death:
    """A flow run whose process is gone: how far its work had come, and how often the run had been Running by then."""

    progress: int
    run_count: int


class TakenUp:
    """One small file of the home, which outlives every keeper."""

    def __init__(self, places: Places) -> None:
        self._file = places.stack / "resumed.json"

    def is_lost(self, flow_run_id: str) -> bool:
        return self._read().get(flow_run_id) == _LOST

    def ended_with_the_stack(self) -> tuple[str, ...]:
        """Runs whose process an orderly end took away, and that are still to be taken up."""
        return tuple(
            name for name, each in self._read().items() if isinstance(each, dict) and each.get(_WITH_THE_STACK)
        )

    def may_go_on(self, flow_run_id: str, death: Death) -> bool:
        """Whether this end is its first, one with the whole stack, or one with progress since the last. A worker may
        tell of a death after the run was taken up: where it has not run again since, it has not died again."""
        earlier = self._read().get(flow_run_id)
        if not isinstance(earlier, dict):  # a bare word is what an older version wrote: taken up once, or lost
            return earlier is None
        if earlier.get(_WITH_THE_STACK) or earlier.get(_AT) is None or death.progress > earlier[_AT]:
            return True
        return self.never_started(flow_run_id, death) and earlier.get(_STARTS, 1) < MOST_STARTS

    def never_started(self, flow_run_id: str, death: Death) -> bool:
        """Whether it has not run since it was last taken up."""
        earlier = self._read().get(flow_run_id)
        return isinstance(earlier, dict) and earlier.get(_RUNS) == death.run_count

    def note(self, flow_run_id: str, death: Death) -> None:
        """It is taken up now. An end with the stack leaves what was counted before as it was."""
        earlier = self._read().get(flow_run_id)
        known = earlier if isinstance(earlier, dict) else {}
        starts = known.get(_STARTS, 1) + 1 if self.never_started(flow_run_id, death) else 1
        at = known.get(_AT) if known.get(_WITH_THE_STACK) else death.progress
        self._write({flow_run_id: {_AT: at, _RUNS: death.run_count, _STARTS: starts}})

    def note_lost(self, flow_run_id: str) -> None:
        self._write({flow_run_id: _LOST})

    def note_end_with_the_stack(self, flow_run_ids: Iterable[str]) -> None:
        """The keeper is about to end their processes because somebody asked it to end."""
        known = self._read()
        ended = {name: known.get(name) for name in flow_run_ids if known.get(name) != _LOST}
        counted = {name: each.get(_AT) if isinstance(each, dict) else None for name, each in ended.items()}
        self._write({name: {_AT: at, _WITH_THE_STACK: True} for name, at in counted.items()})

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(text_or_none(self._file) or "{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, entries: dict[str, Any]) -> None:
        if entries:
            kept = {name: each for name, each in self._read().items() if name not in entries}
            publish(self._file, json.dumps(dict([*kept.items(), *entries.items()][-_MOST:])))


def progress_of(records: RecordStore, delegation_id: str | None) -> int:
    """How far a delegation has come: the replies in its log, and what its later steps have left. 0 where not known."""
    if delegation_id is None or not is_id(delegation_id):
        return 0
    folder = records.folder(delegation_id)
    steps = sum((folder / name).exists() for name in ("work.json", "patch.json"))
    try:
        return steps + sum(event["type"] == "reply" for event in Trajectory(folder / "trajectory.jsonl").stream())
    except DelegateError:
        return steps
