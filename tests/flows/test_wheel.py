"""The wheel, installed in an empty environment and started from `/`, does a delegation: it decides the layout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from delegation.scripted.endpoint import ScriptedEndpoint
from tests.flows.conftest import ROOT, Terminal, local_model
from tests.flows.test_delegation import editing

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_puts_nothing_but_its_two_packages_at_top_level(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    tops = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert tops == {"delegation", "mcp_entry"}
    assert {"delegation/pipeline/prefect.yaml", "delegation/pipeline/flows/delegation.py"} <= set(names)


@pytest.mark.slow
def test_an_installed_wheel_started_from_the_root_folder_does_a_delegation(
    wheel: Path, tmp_path: Path, small_repository: Path
):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    variables = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/dev.txt")], check=True, env=variables)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, env=variables)
    terminal = Terminal(tmp_path / "home", program=environment / "bin" / "delegate")
    try:
        with ScriptedEndpoint(editing("adding.py", "a - b", "a + b")) as endpoint:
            ran = terminal(
                "run", "Fix it", "--repo", str(small_repository), "--verify", "python -m pytest -q", "--json",
                env=local_model(endpoint.base_url), cwd=Path("/"), timeout=400,
            )  # fmt: skip
        assert (ran.code, ran.json["outcome"]) == (0, "verified"), ran.stderr
    finally:
        down = terminal("down", "--purge", cwd=Path("/"))
    assert down.code == 0, down.stderr
    assert terminal.processes() == []
