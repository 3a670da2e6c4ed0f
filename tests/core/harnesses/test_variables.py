"""Every variable of a command-line agent does what its row of the reference says, in the environment and in a file."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delegation.errors import UsageError
from delegation.harnesses.admission import checked_order
from delegation.harnesses.codex import Codex
from delegation.harnesses.codex_quota import quota_warning
from delegation.harnesses.dsh import Dsh
from delegation.harnesses.dsh_models import allowed_models
from delegation.harnesses.gemini import Gemini
from delegation.harnesses.order import HarnessName
from delegation.harnesses.pools import ceiling_for, pool_of
from delegation.harnesses.surroundings import StatefulHarness, state_folder
from delegation.settings import Settings
from delegation.variables import VARIABLES
from tests.doubles.harness_jobs import harness_settings, program, repository

DOCS = Path(__file__).parents[3] / "docs"
REFERENCE = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
HOW_TO = (DOCS / "how-to" / "command-line-agents.md").read_text(encoding="utf-8")
OF_PROGRAMS = re.compile(r"DELEGATE_(CODEX|AGY|GEMINI|DSH)_\w+")
Look = Callable[[Settings], Any]


def pool(kind: HarnessName, field: str) -> Look:
    return lambda settings: getattr(pool_of(kind, settings), field)


def state(kind: StatefulHarness) -> Look:
    return lambda settings: state_folder(settings, kind)


def slots(kind: HarnessName) -> Look:
    """As the pool has it, and as Prefect is told."""
    return lambda settings: (pool_of(kind, settings).ceiling, ceiling_for(kind, settings).slots)


def order(kind: HarnessName, field: str, **fields: Any) -> Look:
    def look(settings: Settings) -> Any:
        task = {"task": "Do it.", "workdir": str(settings.cwd / "repo"), **fields}
        return getattr(checked_order(kind, task, settings).order, field)

    return look


CASES: dict[str, tuple[str, Look, object]] = {
    "DELEGATE_CODEX_BIN": ("{place}/mine", lambda s: Codex(s).probe().program, "{place}/mine"),
    "DELEGATE_CODEX_MODEL": ("sol", order("codex", "model"), "gpt-6.1-sol"),
    "DELEGATE_CODEX_STATE_DIR": ("{place}/jobs", state("codex"), "{place}/jobs"),
    "DELEGATE_CODEX_MAX_CONCURRENT": ("7", slots("codex"), (7, 7)),
    "DELEGATE_CODEX_MAX_PER_PROJECT": ("3", pool("codex", "per_project"), 3),
    "DELEGATE_CODEX_MAX_QUEUE": ("5", pool("codex", "max_queue"), 5),
    "DELEGATE_CODEX_STAGGER_S": ("0.5", pool("codex", "stagger_seconds"), 0.5),
    "DELEGATE_CODEX_QUOTA_WARN": ("50", lambda s: bool(quota_warning(s)), True),
    "DELEGATE_CODEX_QUOTA_REFUSE_PCT": ("50", quota_warning, UsageError),
    "DELEGATE_CODEX_ALLOW_DANGER": (
        "1", order("codex", "sandbox", sandbox="danger-full-access"), "danger-full-access",
    ),
    "DELEGATE_AGY_BIN": ("{place}/mine", lambda s: Gemini(s).probe().program, "{place}/mine"),
    "DELEGATE_GEMINI_STATE_DIR": ("{place}/jobs", state("gemini"), "{place}/jobs"),
    "DELEGATE_GEMINI_MAX_CONCURRENT": ("7", slots("gemini"), (7, 7)),
    "DELEGATE_GEMINI_MAX_QUEUE": ("5", pool("gemini", "max_queue"), 5),
    "DELEGATE_GEMINI_ALLOW_DANGER": ("1", order("gemini", "model"), "gemini-3.8-flash-low"),
    "DELEGATE_DSH_LAUNCHER": ("{place}/mine", lambda s: Dsh(s).probe().program, "{place}/mine"),
    "DELEGATE_DSH_STATE_DIR": ("{place}/jobs", state("dsh"), "{place}/jobs"),
    "DELEGATE_DSH_MODELS_FILE": ("{place}/dsh-models.json", allowed_models, {"m": True}),
    "DELEGATE_DSH_MAX_CONCURRENT": ("7", slots("dsh"), (7, 7)),
    "DELEGATE_DSH_MAX_PER_PROJECT": ("1", pool("dsh", "per_project"), 1),
    "DELEGATE_DSH_MAX_QUEUE": ("5", pool("dsh", "max_queue"), 5),
    "DELEGATE_DSH_STAGGER_S": ("0.5", pool("dsh", "stagger_seconds"), 0.5),
}  # fmt: skip


def seen(look: Look, settings: Settings) -> object:
    """What there is to see; a refusal by its kind."""
    try:
        found = look(settings)
    except UsageError:
        return UsageError
    return str(found) if isinstance(found, Path) else found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A user with a program, a models file, a repository, and a week of which 60 percent are used."""
    program(tmp_path, "mine", "#!/bin/sh\necho codex-cli 0.171.0\n")
    (tmp_path / "dsh-models.json").write_text('["m"]', encoding="utf-8")
    repository(tmp_path / "repo")
    day = tmp_path / "user" / ".codex" / "sessions" / "2026" / "11" / "30"
    day.mkdir(parents=True)
    week = {"used_percent": 60, "window_minutes": 10_080, "resets_at": int(time.time()) + 9_000}
    event = {"timestamp": "2026-11-30T08:00:00+00:00", "payload": {"rate_limits": {"secondary": week}}}
    (day / "rollout-a.jsonl").write_text(json.dumps(event), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_a_variable_of_a_program_acts(place: Path, name: str):
    value, look, wanted = CASES[name]
    value = value.format(place=place)
    wanted = wanted.format(place=place) if isinstance(wanted, str) else wanted
    assert seen(look, harness_settings(place)) != wanted
    assert seen(look, harness_settings(place, **{name: value})) == wanted


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_a_setting_of_the_file_acts_alike(place: Path, name: str):
    value, look, wanted = CASES[name]
    wanted = wanted.format(place=place) if isinstance(wanted, str) else wanted
    setting = VARIABLES[name]
    number = value if re.fullmatch(r"[\d.]+", value) else json.dumps(value.format(place=place))
    text = f"[settings]\n{setting} = {'true' if name.endswith('DANGER') else number}\n"
    config = place / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text(text, encoding="utf-8")
    assert seen(look, harness_settings(place)) == wanted


def test_no_variable_of_a_program_is_left_out():
    """`DELEGATE_WAIT_INTERVAL` is seen at work in the tests of `delegate-wait`."""
    assert {name for name in VARIABLES if OF_PROGRAMS.fullmatch(name)} == set(CASES)
    table = REFERENCE.split("### Command-line agents\n")[1].split("\n### ")[0]
    assert set(re.findall(r"^\| `(DELEGATE_\w+)`", table, re.MULTILINE)) == {*CASES, "DELEGATE_WAIT_INTERVAL"}


def test_the_folders_that_took_the_place_of_older_ones_are_those_of_the_page(place: Path):
    settings = harness_settings(place)
    kinds: tuple[StatefulHarness, ...] = ("codex", "gemini", "dsh")
    for kind in kinds:
        folder = state_folder(settings, kind).relative_to(settings.home.root)
        assert f"`{folder}`" in HOW_TO.split("## Coming from the earlier tools\n")[1]


def test_a_project_may_not_have_more_than_there_are_everywhere(place: Path):
    with pytest.raises(UsageError, match="DELEGATE_CODEX_MAX_PER_PROJECT=9 is above"):
        harness_settings(place, DELEGATE_CODEX_MAX_PER_PROJECT="9")
    for name in (name for name in CASES if "MAX" in name):
        with pytest.raises(UsageError, match=name):
            harness_settings(place, **{name: "0"})
