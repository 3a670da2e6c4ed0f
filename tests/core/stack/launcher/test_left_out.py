"""What flow processes need not do, because the launcher that forks them has done it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from delegation.home import Home
from deployments.configuration import Configuration
from deployments.connection import Connection
from deployments.launcher import left_out
from deployments.places import Places

ROOT = Path(__file__).parents[4]


def test_prefects_settings_are_compared_without_what_differs_for_every_run():
    given = {"PREFECT_API_URL": "u", "PREFECT__FLOW_RUN_ID": "1", "PREFECT_WORKER_NAME": "w", "PATH": "p"}
    assert left_out.prefect_settings(given) == {"PREFECT_API_URL": "u"}


def test_a_flow_process_gets_prefects_settings_as_its_launcher_has_them(delegate_home: Path):
    """What the worker makes of them on the way must not differ in a letter: else each run reads them all again."""
    configuration = Configuration(Home(delegate_home, delegate_home / "config" / "delegate.toml"))
    connection = Connection("http://127.0.0.1:1/api", "http://127.0.0.1:1", "delegate:word", None, 1)
    given = connection.settings(Places(configuration.home))
    environment = {**given, "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)}
    code = (
        "import json, os\n"
        "from uuid import uuid4\n"
        "from prefect.client.schemas.objects import FlowRun\n"
        "from prefect.workers.process import ProcessJobConfiguration\n"
        "made = ProcessJobConfiguration(command='x')\n"
        "made.prepare_for_flow_run(FlowRun(flow_id=uuid4(), name='r'))\n"
        "print(json.dumps({**os.environ, **{name: str(value) for name, value in made.env.items() if value}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    handed_on = json.loads(done.stdout)
    assert handed_on["PREFECT_API_AUTH_STRING"] == "delegate:word"
    assert left_out.prefect_settings(handed_on) == left_out.prefect_settings(environment)


@pytest.mark.parametrize(
    ("url", "is_read_once"), [("http://127.0.0.1:1/api", True), ("https://example.invalid", False)]
)
def test_certificates_are_read_once_for_a_server_that_is_spoken_to_without_them(
    monkeypatch: pytest.MonkeyPatch, url: str, is_read_once: bool
):
    import ssl

    read: list[object] = []

    def create_default_context(**asked: object) -> object:
        read.append(asked)
        return object()

    orchestration = SimpleNamespace(ssl=SimpleNamespace(create_default_context=create_default_context, CERT_NONE=0))
    monkeypatch.setenv("PREFECT_API_URL", url)
    monkeypatch.setitem(sys.modules, "prefect.client.orchestration", orchestration)
    left_out.know_certificates()
    one, other = (orchestration.ssl.create_default_context(cafile="c") for _ in range(2))
    assert (one is other) == is_read_once
    assert len(read) == (1 if is_read_once else 2)
    assert orchestration.ssl.CERT_NONE == ssl.CERT_NONE
