"""The peer: Prefect's process worker as it comes, on the same server, running a flow of one task and one request."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.model import ROOT, Model
from tests.bench.stacks import Bench
from tests.bench.usage import spending

_FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def stock_overhead(bench: Bench, answering: Model, rounds: int) -> list[tuple[float, float]]:
    """Wall and CPU seconds of whole runs; it polls each second, and polling is not counted."""
    measured: list[tuple[float, float]] = []
    with _worker(bench, "bench-stock-1", 1.0) as worker:
        deployment = _deploy(bench, "bench-stock-1")
        _run(bench, deployment, answering)
        for _ in range(rounds):
            with spending(worker=worker, server=bench.pids()["server"], database=bench.pids()["database"]) as spent:
                began = time.monotonic()
                _run(bench, deployment, answering)
                wall = time.monotonic() - began
            measured.append((wall, spent.cpu))
    return measured


def stock_first_requests(bench: Bench, answering: Model, rounds: int) -> dict[str, float]:
    """Median seconds from the call to the first request, with its own poll of 10 s and with one of a second."""
    found: dict[str, float] = {}
    for name, poll in (("process worker", None), ("process worker, polling each second", 1.0)):
        pool = f"bench-first-{'own' if poll is None else '1'}"
        with _worker(bench, pool, poll):
            deployment = _deploy(bench, pool)
            _run(bench, deployment, answering)
            latencies: list[float] = []
            for _ in range(rounds):
                moment = time.time()
                _run(bench, deployment, answering)
                latencies.append(answering.first_after(moment) - moment)
        found[name] = statistics.median(latencies)
    return found


@contextmanager
def _worker(bench: Bench, pool: str, poll: float | None) -> Iterator[int]:
    """A worker of its own pool, by its own command line and with its own defaults."""
    with bench.rest() as rest:
        rest.call("POST", "/work_pools/", {"name": pool, "type": "process", "base_job_template": {}})
    env = {
        **{name: value for name, value in bench.env.items() if not name.startswith("DELEGATE_")},
        "PREFECT_API_URL": bench.state.api_url,
        "PREFECT_API_AUTH_STRING": bench.state.auth_string or "",
        "PREFECT_HOME": str(bench.folder / "stock"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PYTHONPATH": str(ROOT),
    }
    if poll is not None:
        env["PREFECT_WORKER_QUERY_SECONDS"] = str(poll)
    words = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process"]
    with subprocess.Popen(
        words, env=env, cwd=bench.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            _wait_online(bench, pool)
            yield child.pid
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()


def _wait_online(bench: Bench, pool: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    with bench.rest() as rest:
        while time.monotonic() < deadline:
            if rest.call("POST", f"/work_pools/{pool}/workers/filter", {}):
                return
            time.sleep(0.1)
    raise TimeoutError(f"no worker of {pool} within {seconds} s")


def _deploy(bench: Bench, pool: str) -> str:
    with bench.rest() as rest:
        flow = rest.call("POST", "/flows/", {"name": "bench-stock"})
        step = {"prefect.deployments.steps.set_working_directory": {"directory": str(Path(__file__).parent)}}
        body = {
            "name": pool, "flow_id": flow["id"], "entrypoint": "stock_flow.stock", "pull_steps": [step],
            "work_pool_name": pool, "enforce_parameter_schema": False,
        }  # fmt: skip
        return rest.call("POST", "/deployments/", body)["id"]


def _run(bench: Bench, deployment: str, answering: Model, seconds: float = 120) -> None:
    """One run, waited for. Raises RuntimeError when it does not complete."""
    body = {"parameters": {"base_url": answering.base_url}, "state": {"type": "SCHEDULED"}}
    with bench.rest() as rest:
        made = rest.call("POST", f"/deployments/{deployment}/create_flow_run", body)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            state = rest.call("GET", f"/flow_runs/{made['id']}")["state"]
            if state["type"] in _FINAL:
                break
            time.sleep(0.1)
    if state["type"] != "COMPLETED":
        raise RuntimeError(f"a stock run ended as {state['name']}: {state['message']}")
