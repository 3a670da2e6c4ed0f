"""What a stack costs while nothing is asked of it."""

import time
from collections.abc import Iterator

from tests.bench.client import mcp_server
from tests.bench.model import model
from tests.bench.one import delegated
from tests.bench.rows import Row, at_most
from tests.bench.stacks import DELEGATE, stack, temporary_folder
from tests.bench.usage import cost_of, pss_mb, tree

_SETTLING_SECONDS = 40.0  # the first sweeps after a start, and what a delegation leaves to be written


def rows(quick: bool) -> Iterator[Row]:
    seconds = 60.0 if quick else 600.0
    with temporary_folder() as place, model("repair", place) as answering, stack(answering) as bench:
        with mcp_server([str(DELEGATE), "mcp"], bench.env, bench.repo) as client:
            delegated(client, bench.repo)
        time.sleep(_SETTLING_SECONDS)
        names = {"keeper": bench.keeper, **bench.pids()}
        before = {name: cost_of(pid) for name, pid in names.items()}
        began = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        after = {name: cost_of(pid) for name, pid in names.items()}
        memory = {name: pss_mb(tree(pid)) for name, pid in names.items()}
    cpu = {name: after[name].cpu_seconds - before[name].cpu_seconds for name in names}
    woken = {name: (after[name].wakeups - before[name].wakeups) / passed for name in names}
    parts = [name for name in names if name != "keeper"]  # its tree holds all the others
    own = {"keeper": cpu["keeper"] - sum(cpu[name] for name in parts)} | {name: cpu[name] for name in parts}
    yield Row(
        name="idle stack, share of one core", unit="%", ours=100 * cpu["keeper"] / passed, peers={"nothing": 0.0},
        aims=at_most(1.0), note=", ".join(f"{name} {100 * value / passed:.2f}" for name, value in own.items()),
    )  # fmt: skip
    yield Row(
        name="idle stack, CPU in ten minutes", unit="CPU s", ours=600 * cpu["keeper"] / passed,
        note=f"measured over {passed:.0f} s",
    )  # fmt: skip
    yield Row(
        name="idle stack, wake-ups", unit="1/s", ours=woken["keeper"],
        note=", ".join(f"{name} {woken[name]:.1f}" for name in parts),
    )  # fmt: skip
    yield Row(
        name="idle stack, memory (PSS)", unit="MB", ours=memory["keeper"],
        note=", ".join(f"{name} {memory[name]:.0f}" for name in parts),
    )  # fmt: skip
