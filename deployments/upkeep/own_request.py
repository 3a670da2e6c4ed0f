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
    parameters = dict(run["parameters"] or {})
    for name in _named(run):
        with suppress(UsageError):
            if records.entry(name).flow_run_id in (run["id"], None):
                own = request_id_of(parameters) == name
                return parameters if own else {"request": records.request(name).model_dump(mode="json")}
            if name == request_id_of(parameters):
                parameters["request"] = None  # that one's, and another run's
    return parameters


def _named(run: Mapping[str, Any]) -> Iterator[str]:
    """What its parameters say first, then its tags."""
    given = request_id_of(run["parameters"] or {})
    yield from (name for name in [given, *(run.get("tags") or ())] if isinstance(name, str) and is_id(name))


def request_id_of(parameters: Mapping[str, Any]) -> str | None:
    """The delegation's id that they say. None where they say none, or are such as no front door sends: whoever starts a
    run by hand may give anything."""
    request = parameters.get("request")
    found = request.get("id") if isinstance(request, dict) else None
    return found if isinstance(found, str) else None
