"""Which delegation a flow run carries. Its parameters say it, but for a run that was started in the UI: from a bare
card, which has no id, or from the parameters of another run, which have that one's."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from delegation.errors import UsageError
from delegation.ids import is_id
from delegation.records import RecordStore


def own_parameters(records: RecordStore, run: Mapping[str, Any]) -> dict[str, Any]:
    """The run's parameters with the request of its own delegation; without any where it has made none yet."""
    parameters = dict(run["parameters"])
    for name in _named(run):
        with suppress(UsageError):
            if records.entry(name).flow_run_id in (run["id"], None):
                own = (parameters.get("request") or {}).get("id") == name
                return parameters if own else {"request": records.request(name).model_dump(mode="json")}
            if name == (parameters.get("request") or {}).get("id"):
                parameters["request"] = None  # that one's, and another run's
    return parameters


def _named(run: Mapping[str, Any]) -> Iterator[str]:
    """What its parameters say first, then its tags."""
    given = (run["parameters"].get("request") or {}).get("id")
    yield from (name for name in [given, *(run.get("tags") or ())] if isinstance(name, str) and is_id(name))
