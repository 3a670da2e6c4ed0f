"""The front door: from its start to the first list of tools, and a list of delegations in the terminal."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.client import mcp_server, seconds_to_tools
from tests.bench.model import model
from tests.bench.one import delegated
from tests.bench.rows import Aim, Row
from tests.bench.stacks import DELEGATE, Bench, run, stack, temporary_folder

_BARE = """
from mcp.server import MCPServer
server = MCPServer("bare")
@server.tool()
def add(a: int, b: int) -> int:
    return a + b
server.run()
"""
_OVER_BARE = 0.2


def rows(quick: bool) -> Iterator[Row]:
    rounds = 3 if quick else 9
    with temporary_folder() as place, model("repair", place) as answering, stack(answering) as bench:
        with mcp_server([str(DELEGATE), "mcp"], bench.env, bench.repo) as client:
            for _ in range(2):
                delegated(client, bench.repo)
        yield _tools(bench, rounds)
        yield _listing(bench, rounds)


def _tools(bench: Bench, rounds: int) -> Row:
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(seconds_to_tools([sys.executable, "-c", _BARE], bench.env, bench.repo))
        ours.append(seconds_to_tools([str(DELEGATE), "mcp"], bench.env, bench.repo))
    peer = statistics.median(bare)
    return Row(
        name="delegate mcp, start to first tools/list", unit="s", ours=statistics.median(ours),
        peers={"bare mcp server": peer}, against="bare mcp server", aims=(Aim(of="more", most=_OVER_BARE),),
    )  # fmt: skip


def _listing(bench: Bench, rounds: int) -> Row:
    state = bench.state
    prefect = [str(Path(sys.executable).with_name("prefect")), "flow-run", "ls"]
    theirs_env = {
        **bench.env, "PREFECT_API_URL": state.api_url, "PREFECT_API_AUTH_STRING": state.auth_string or "",
        "PREFECT_HOME": str(bench.folder / "prefect"),
    }  # fmt: skip
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(_seconds(lambda: run([str(DELEGATE), "list"], bench.env)))
        theirs.append(_seconds(lambda: run(prefect, theirs_env)))
    peer = statistics.median(theirs)
    return Row(
        name="delegate list", unit="s", ours=statistics.median(ours), peers={"prefect flow-run ls": peer},
        against="prefect flow-run ls",
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
