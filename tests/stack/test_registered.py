"""What the stack registers in Prefect: deployments, pool, queues and limits."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from waiting import until

from deployments.environment import client_settings
from deployments.registration.buckets import Bucket
from deployments.registration.queues import ensure_bucket
from deployments.rest import PrefectRest

pytestmark = pytest.mark.stack
_CHANGES_BY_ITSELF = {"updated", "updated_by", "created_by", "last_polled", "status"}


def test_deployments_are_those_that_prefect_deploy_makes(live: Any, tmp_path: Path):
    """Field by field, on a file of the same shape as ours: our flow and its own command."""
    file = _prefect_file(live, tmp_path)
    env = {
        **live.program.env,
        **_settings(live),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), live.program.env["PYTHONPATH"]]),
    }
    made = {}
    for name, argv in {
        "ours": [sys.executable, "-m", "deployments.registration.apply", str(file)],
        "theirs": [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
    }.items():
        done = subprocess.run(
            argv,
            env={**env, "DELEGATE_DATABASE_URL": live.state.database_url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = live.rest.call("GET", "/deployments/name/trial/compared")
        made[name] = {key: value for key, value in found.items() if key not in _CHANGES_BY_ITSELF}
    assert made["ours"] == made["theirs"]
    assert made["ours"]["tags"] == ["kept"]
    assert made["ours"]["pull_steps"]


def test_our_deployment_starts_its_runs_through_the_launcher(live: Any):
    found = live.rest.call("GET", "/deployments/name/delegation/delegation")
    assert found["work_pool_name"] == live.state.work_pool
    assert live.state.launcher_socket in found["job_variables"]["command"]
    assert found["entrypoint"] == "flows.delegation.delegation"


def test_a_bucket_made_by_many_at_once_is_made_once(live: Any):
    bucket = Bucket(f"b{uuid4().hex[:6]}", 3, chain_slots=4)
    problems: list[Exception] = []

    def ensure() -> None:
        try:
            with PrefectRest(live.state.api_url, live.state.auth_string) as rest:
                ensure_bucket(rest, bucket)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=ensure) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert live.rest.find(f"/v2/concurrency_limits/{bucket.limit_name}")["limit"] == 3
    now, night = (live.rest.find(f"/work_pools/delegations/queues/{name}") for name in bucket.queue_names)
    assert (now["concurrency_limit"], night["concurrency_limit"]) == (12, 12)
    assert now["priority"] < night["priority"]


def test_a_limit_changed_in_the_ui_stays_unless_the_user_set_the_ceiling(live: Any):
    name = f"b{uuid4().hex[:6]}"
    path = f"/v2/concurrency_limits/bucket:{name}"
    ensure_bucket(live.rest, Bucket(name, 3))
    live.rest.call("PATCH", path, {"limit": 9})
    ensure_bucket(live.rest, Bucket(name, 3))
    assert live.rest.find(path)["limit"] == 9
    ensure_bucket(live.rest, Bucket(name, 5, explicit=True))
    assert live.rest.find(path)["limit"] == 5
    assert live.rest.find(f"/work_pools/delegations/queues/{name}-now")["concurrency_limit"] == 12


def test_now_goes_before_night_in_every_bucket(live: Any):
    names = [f"b{uuid4().hex[:6]}" for _ in range(2)]
    for name in names:
        ensure_bucket(live.rest, Bucket(name, 1))
    queues = {
        queue["name"]: queue["priority"]
        for queue in live.rest.call("POST", "/work_pools/delegations/queues/filter", {})
    }
    assert max(queues[f"{name}-now"] for name in names) < min(queues[f"{name}-night"] for name in names)


def test_slots_that_nobody_holds_are_given_back(live: Any):
    """As after a server that died between two writes: counted as used, with no lease."""
    bucket = Bucket(f"b{uuid4().hex[:6]}", 2)
    ensure_bucket(live.rest, bucket)
    path = f"/v2/concurrency_limits/{bucket.limit_name}"
    held = {"names": [bucket.limit_name], "slots": 1, "mode": "concurrency", "lease_duration": 300}
    live.rest.call("POST", "/v2/concurrency_limits/increment-with-lease", held)
    live.rest.call("PATCH", path, {"active_slots": 2})
    until(lambda: live.rest.find(path)["active_slots"] == 1, 50, "the slot without a lease is given back")


def _prefect_file(live: Any, folder: Path) -> Path:
    """Our own rendered file with the trial flow in place of ours."""
    text = live.program.places.rendered.read_text()
    text = text.replace("flows.delegation.delegation", "trial_flow.trial").replace(
        "name: delegation\n", "name: compared\n    tags: [kept]\n"
    )
    file = folder / "prefect.yaml"
    file.write_text(text)
    return file


def _settings(live: Any) -> dict[str, str]:
    return client_settings(live.program.places, live.state.api_url, live.state.auth_string, None)
