"""What stands on the pages about command-line agents and about waking Claude Code is true as it stands there."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from front import ROOT, Front, Ran

from delegation.checkout.git import git
from delegation.harnesses.order import LONGEST_SECONDS
from delegation.harnesses.pools import pool_of
from mcp_entry.terminal.delegate_wait import line_of
from mcp_entry.tools.programs import program_tools
from tests.doubles.harness_jobs import harness_settings, program

AGENTS = (ROOT / "docs" / "how-to" / "command-line-agents.md").read_text(encoding="utf-8")
WAKING = (ROOT / "docs" / "how-to" / "waking-claude-code.md").read_text(encoding="utf-8")
RUNS = re.findall(r"^\$ (delegate run .*)$", AGENTS, re.MULTILINE)
MODEL = '[models.local-qwen]\nbase_url = "http://127.0.0.1:9"\nmodel = "q"\nformat = "anthropic"\nlane = "local"\n'


@pytest.fixture
def user(stacked: Front, tmp_path: Path) -> Front:
    """Everything that the page names is installed."""
    for name in ("codex", "agy", "claude"):
        program(tmp_path, name, "#!/bin/sh\necho codex-cli 0.171.0\n")
    (stacked.home / "config").mkdir(exist_ok=True)
    (stacked.home / "config" / "delegate.toml").write_text(MODEL, encoding="utf-8")
    stacked.environ |= {"PATH": f"{tmp_path}:{stacked.environ['PATH']}", "CODEX_HOME": str(tmp_path / "login")}
    stacked.environ["DELEGATE_GEMINI_ALLOW_DANGER"] = "1"
    (stacked.repo / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    git("add", "pytest.ini", cwd=stacked.repo)
    git("-c", "user.name=t", "-c", "user.email=t@t.invalid", "commit", "-q", "-m", "tests", cwd=stacked.repo)
    return stacked


def test_the_page_has_its_commands():
    assert [line.split("--agent ")[1].split()[0] for line in RUNS] == ["codex", "gemini", "claude"]


@pytest.mark.parametrize("command", RUNS)
def test_a_command_of_the_page_is_admitted(user: Front, call: Callable[..., Ran], command: str):
    ran = call(*shlex.split(command)[1:], "--no-wait", "--json")
    assert ran.code == 0, ran.stderr
    request = user.records.request(json.loads(ran.stdout)["id"])
    assert request.order is not None


def test_the_table_of_the_page_is_a_valid_one(tmp_path: Path):
    (table,) = re.findall(r"```toml\n(.*?)```", AGENTS, re.DOTALL)
    config = tmp_path / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text(table, encoding="utf-8")
    template = harness_settings(tmp_path).catalogue.commands["fixer"]
    assert template.argv[0] == "fixer"
    assert template.passthrough == ("FIXER_KEY",)


def test_the_numbers_of_the_page_are_the_defaults(tmp_path: Path):
    usual = harness_settings(tmp_path)
    codex, gemini, dsh = (pool_of(kind, usual) for kind in ("codex", "gemini", "dsh"))
    assert f"`DELEGATE_CODEX_MAX_CONCURRENT` ({codex.ceiling}), `_MAX_PER_PROJECT` ({codex.per_project}" in AGENTS
    assert f"`_STAGGER_S` ({codex.stagger_seconds:g}) between two launches, `_MAX_QUEUE` ({codex.max_queue})" in AGENTS
    assert f"for Gemini {gemini.ceiling} and {gemini.max_queue}" in AGENTS
    assert f"for dsh {dsh.ceiling}, {dsh.per_project}, {dsh.stagger_seconds:g} s and {dsh.max_queue}" in AGENTS
    assert f"at most {LONGEST_SECONDS:,} s" in AGENTS
    assert f"`DELEGATE_CODEX_QUOTA_WARN` ({usual.codex_quota_warn:g})" in AGENTS


def test_the_lines_of_the_pages_are_those_that_are_printed():
    done = {"id": "cx-20261130t113652417-k7x2", "status": "done", "duration_s": 143.2, "outcome": "verified"}
    line = line_of({**done, "task": "Make the parser accept comments"})
    assert line in AGENTS
    assert line in WAKING


def test_the_hook_hears_the_tools_that_start_work_and_no_others():
    hooks = json.loads((ROOT / "plugin" / "hooks" / "hooks.json").read_text(encoding="utf-8"))
    (entry,) = hooks["hooks"]["PostToolUse"]
    heard = re.compile(entry["matcher"])
    starts = ("submit_codex", "submit_delegations", "submit_cards", "delegate_to_gemini", "rerun_delegation")
    for server in ("mcp__delegate__", "mcp__plugin_delegate_delegate__"):
        assert all(heard.fullmatch(server + name) for name in starts)
        assert not [name for name in ("poll_codex", "cancel_codex", "analyze") if heard.fullmatch(server + name)]
    assert entry["hooks"][0]["command"] == "delegate-wait --hook"
    assert entry["hooks"][0]["asyncRewake"] is True


def test_the_plugin_has_the_version_of_the_package():
    plugin = json.loads((ROOT / "plugin" / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    assert plugin["version"] == found[1]


def test_the_groups_that_the_page_names_are_those_of_the_server():
    assert [group.GROUP for group in program_tools(("codex", "gemini", "dsh", "claude"))] == ["codex", "gemini", "dsh"]
