"""From one delegation's last answer to the next one's first request, through a pool of one slot."""

import json
import statistics
from collections.abc import Iterator
from itertools import pairwise

from tests.bench.many import finished, submitted
from tests.bench.model import BRIEF_SECONDS, Model, model
from tests.bench.rows import Row, at_most
from tests.bench.stacks import stack, temporary_folder


def rows(quick: bool) -> Iterator[Row]:
    count = 4 if quick else 10
    settings = {"DELEGATE_CONCURRENCY_OPENAI_BENCH": "1"}
    with temporary_folder() as place, model("brief", place) as answering, stack(answering, **settings) as bench:
        finished(bench, submitted(bench, count))
        gaps = _gaps(answering)
    yield Row(
        name="slot hand-over, last answer to next request", unit="s", ours=statistics.median(gaps),
        peers={"ideal": 0.0}, aims=at_most(0.5), note=f"longest {max(gaps):.2f} s of {len(gaps)}",
    )  # fmt: skip


def _gaps(answering: Model) -> list[float]:
    """Between conversations, in the order in which they began; an answer takes `BRIEF_SECONDS`."""
    spans: dict[str, list[float]] = {}
    for entry in answering.entries():
        task = json.dumps(next(each for each in entry["body"]["messages"] if each["role"] == "user"))
        spans.setdefault(task, []).append(entry["t"])
    ordered = sorted((min(times), max(times)) for times in spans.values())
    return [begin - (end + BRIEF_SECONDS) for (_, end), (begin, _) in pairwise(ordered)]
