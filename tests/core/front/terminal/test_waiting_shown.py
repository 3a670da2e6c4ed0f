"""A delegation that waits says why, at what place in line, and until when."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

from front import Front, Ran

from delegation.records import Progress

UNTIL = datetime(2026, 12, 1, 6, 30, tzinfo=UTC)


def test_one_in_line_says_why_and_at_what_place(front: Front, call: Callable[..., Ran]):
    name = front.keep(step=None)
    detail = "waiting for a slot of 'glm-coding-plan' for 12 s, number 3 in line"
    waiting = Progress(step="waiting", queue_reason="bucket_full", queue_position=3, detail=detail)
    front.records.write_status(name, waiting)
    shown = json.loads(call("show", name, "--json").stdout)
    assert (shown["state"], shown["queue_reason"], shown["queue_position"]) == ("waiting", "bucket_full", 3)
    assert f"waiting: bucket_full, {detail}" in call("show", name).stdout
    (line,) = json.loads(call("list", "--json").stdout)["delegations"]
    assert (line["queue_reason"], line["queue_position"], line["parked_until"]) == ("bucket_full", 3, None)


def test_a_parked_one_says_until_when(front: Front, call: Callable[..., Ran]):
    name = front.keep(step=None)
    detail = "cooling down: 'glm-coding-plan' until 2026-12-01 06:30:00 UTC (used up)"
    front.records.write_status(name, Progress(step="waiting", queue_reason="quota", detail=detail, parked_until=UNTIL))
    shown = json.loads(call("show", name, "--json").stdout)
    assert datetime.fromisoformat(shown["parked_until"]) == UNTIL
    assert (shown["queue_reason"], shown["queue_position"]) == ("quota", None)
    assert f"waiting: quota, {detail}" in call("show", name).stdout
