"""The arithmetic of prices on the page about the agent is what a run really prints, and its table is ours."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from front import ROOT, Front, Ran

from delegation.agents.lookup import find_agent
from delegation.agents.loop import run_agent
from delegation.agents.tools.toolbox import Toolbox
from delegation.agents.trajectory import Trajectory
from delegation.chat.client import connect
from delegation.models import prices
from delegation.models.catalogue import Catalogue
from delegation.receipt import Receipt
from delegation.request import Limits
from delegation.scripted.endpoint import ScriptedEndpoint, Turn

PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text(encoding="utf-8").split("## Tokens and money")[1]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1).strip()


def counts() -> dict[str, int]:
    told = re.search(r"a run of ([\d,]+) prompt tokens, of which ([\d,]+) .*?, and ([\d,]+) completion", PAGE)
    assert told is not None
    numbers = [int(number.replace(",", "")) for number in told.groups()]
    return dict(zip(("input", "cached", "output"), numbers, strict=True))


def test_the_worked_example_is_what_a_run_prints(front: Front, call: Callable[..., Ran], tmp_path: Path):
    config = front.settings.home.config_file
    config.parent.mkdir(parents=True)
    config.write_text(block("toml"), encoding="utf-8")
    endpoint = Catalogue(front.settings).entry("claude-of-mine").endpoint
    with ScriptedEndpoint([Turn(text="Done.", usage=counts())]) as server:
        here = endpoint.model_copy(update={"base_url": server.base_url, "key_ref": None})
        with connect(here, None) as model:
            result = run_agent(
                model=model, agent=find_agent(None, front.repo, tmp_path), task="x",
                toolbox=Toolbox(front.repo, None), limits=Limits(max_turns=2, timeout_seconds=60, max_tokens=1000),
                trajectory=Trajectory(tmp_path / "log.jsonl"), expects="answer", cancelled=threading.Event(),
                on_turn=lambda report: None,
            )  # fmt: skip
    delegation_id = front.keep(number=1, expects="answer")
    front.end(delegation_id, "answered", answer="Done.", usage=result.usage, cost=result.cost, costs=result.costs)

    assert call("show", delegation_id).stdout.count(block("text")) == 1
    shown = json.loads(call("show", delegation_id, "--json").stdout)
    receipt = Receipt.model_validate({name: shown[name] for name in Receipt.model_fields})
    assert receipt.usage is not None
    assert receipt.usage.cached_tokens == counts()["cached"]
    assert (receipt.cost.kind, receipt.cost.amount_usd) == ("estimated", pytest.approx(0.095))
    assert endpoint.prices_as_of == "2026-11-30"


def test_the_table_on_the_page_is_the_one_we_use():
    rows = re.findall(r"^\| `([^`]+)` \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    told = {name: prices.Price(float(given), float(made), "2026-08-21") for name, given, made in rows}
    assert "taken on 2026-08-21" in PAGE
    assert told == prices._TABLE
