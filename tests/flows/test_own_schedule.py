"""A night as a deployment of the user's own, in Prefect's words, as the page on night shifts says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from delegation.home import Home
from delegation.stack_state import running_stack
from tests.flows.conftest import ROOT, Terminal
from tests.flows.small_night import api, until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_copy_of_the_rendered_file_with_a_cron_and_its_time_zone_is_a_night_of_its_own(
    stack: Terminal, tmp_path: Path
):
    page = (ROOT / "docs" / "how-to" / "night-shift.md").read_text(encoding="utf-8")
    (given,) = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    cards = tmp_path / "cards"
    cards.mkdir()
    (cards / "typo.md").write_text("---\nmodle: x\n---\nDo it\n", encoding="utf-8")
    given["parameters"]["cards"] = str(cards)
    ours = yaml.safe_load((stack.home / "stack" / "prefect.yaml").read_text(encoding="utf-8"))
    night = next(each for each in ours["deployments"] if each["name"] == "night")
    file = tmp_path / "nights.yaml"
    file.write_text(yaml.safe_dump({**ours, "deployments": [{**night, **given}]}), encoding="utf-8")
    state = running_stack(Home(stack.home, stack.home / "config"))
    client = {"PREFECT_API_URL": state.api_url, "PREFECT_API_AUTH_STRING": state.auth_string or ""}
    deployed = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
        cwd=ROOT, env={**os.environ, **client}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr

    with api(stack) as server:
        made = server.get("/deployments/name/night_shift/shop-every-night").json()
        (schedule,) = made["schedules"]
        assert (schedule["schedule"]["cron"], schedule["schedule"]["timezone"]) == ("30 1 * * *", "Europe/Berlin")
        body = {"parameters": {"cards": str(cards)}}
        run = server.post(f"/deployments/{made['id']}/create_flow_run", json=body).json()
        until(lambda: server.get(f"/flow_runs/{run['id']}").json()["state_type"] == "COMPLETED", 90)
        ended = server.get(f"/flow_runs/{run['id']}").json()
        assert (ended["name"], ended["state"]["message"]) == ("Night of cards", "Night report: 0 of 1 cards accepted.")
        assert server.delete(f"/deployments/{made['id']}").is_success
