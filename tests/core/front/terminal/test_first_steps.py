"""What somebody meets who uses the program from its pages alone: words that are missing or mistyped."""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from front import Front, Ran

from delegation.scripted.endpoint import ScriptedEndpoint
from mcp_entry.terminal.app import VERBS
from mcp_entry.terminal.demo import program

Call = Callable[..., Ran]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "Fix", "the", "test"], "the task is one argument, and 'the test' came after it: quote the task. See"),
        (["task", "What", "now"], "the prompt is one argument, and 'now' came after it: quote the prompt. See"),
        (["list", "x"], "'x' is more than `delegate list` takes. See `delegate list --help`."),
        (["show"], "show what? Give an ID: `delegate list` shows them. See `delegate show --help`."),
        (["rerun"], "rerun what? Give an ID: `delegate list` shows them. See"),
        (["log", "1"], "there is no verb 'log': did you mean 'transcript'? See `delegate --help`."),
        (["diff", "1"], "there is no verb 'diff': did you mean 'patch'? See"),
        (["undo", "1"], "there is no verb 'undo': each `apply` prints the command that takes its change back. See"),
        (["lst"], "there is no verb 'lst': did you mean 'list'? See"),
        (["frobnicate"], "there is no verb 'frobnicate'; there are run, wait, cancel,"),
    ],
)
def test_words_that_do_not_fit_are_told_with_the_ones_that_do(front: Front, call: Call, words: list[str], said: str):
    done = call(*words)
    assert done.code == 2
    assert done.stderr.startswith(f"delegate: {said}")
    assert len(done.stderr.splitlines()) == 1


def test_a_card_file_with_an_unknown_key_names_it_and_that_the_task_is_missing(front: Front, call: Call):
    (front.repo / "c.json").write_text('{"cards": 1}')
    assert call("run", "--card", "c.json").stderr == (
        "delegate: the card cannot be used: task is missing; cards is an unknown key\n"
    )


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_names_what_every_verb_takes(front: Front, call: Call, verb: str):
    said = " ".join(call(*filter(None, [verb, "--help"])).stdout.split())
    assert "--json prints one JSON object" in said
    assert "--traceback shows where an error came from" in said


def test_help_of_run_tells_the_defaults(front: Front, call: Call):
    said = " ".join(call("run", "--help").stdout.replace("│", " ").split())
    for default in (
        "default HEAD",
        "default 25 local, 60 cloud",
        "default worktree",
        "pass (default)",
        "now (default)",
    ):
        assert default in said


def test_a_model_that_its_endpoint_does_not_list_is_not_said_to_answer(front: Front, call: Call):
    file = front.home / "config" / "delegate.toml"
    file.parent.mkdir(parents=True)
    with ScriptedEndpoint({"models": ["there", "tagged:latest"], "turns": []}) as endpoint:
        file.write_text(
            "".join(
                f'[models.{alias}]\nbase_url = "{endpoint.base_url}"\nmodel = "{model}"\n'
                for alias, model in (("a", "there"), ("b", "gone"), ("c", "tagged"))
            )
        )
        lines = {line.split()[0]: line for line in call("models").stdout.splitlines() if line.split()}
    assert lines["a"].rstrip().endswith("  answers")
    assert lines["b"].rstrip().endswith("its endpoint answers, but does not list it")
    assert lines["c"].rstrip().endswith("  answers")


def test_down_says_how_many_are_unfinished_and_that_they_go_on(front: Front):
    front.settings.home.make(front.settings.home.stack)
    front.end(front.keep(number=1), "verified")
    assert "unfinished" not in front.delegate("down").stdout
    front.keep(number=2)
    assert "1 delegation is unfinished, and goes on after `delegate up`" in front.delegate("down").stdout
    front.keep(number=3)
    assert "2 delegations are unfinished, and go on after `delegate up`" in front.delegate("down").stdout


def test_a_demo_that_fails_says_what_it_leaves(
    stacked: Front, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert stacked.prefect is not None
    stacked.prefect.has_deployment = False
    done = call("demo")
    assert done.code == 2
    assert re.search(r"left behind: the sample repository \(rm -r (\S*delegate-demo-\S+)\)", done.stderr), done.stderr


@pytest.mark.parametrize("on_path", [True, False])
def test_commands_of_the_demo_name_the_program_where_it_is_not_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool
):
    for folder in ("found", "beside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "delegate").write_text("#!/bin/sh\n")
        (tmp_path / folder / "delegate").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / ("found" if on_path else "nowhere")))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.chdir(tmp_path)
    assert program() == ("delegate" if on_path else "beside/delegate")
