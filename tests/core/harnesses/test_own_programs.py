"""A program of the user's as an agent: when its silence is no failure, and what is said of it by its name."""

from pathlib import Path
from typing import Any

import pytest

from delegation.admission import admit
from delegation.card import Card
from delegation.errors import NotFoundError, UsageError
from delegation.harnesses.command import OwnCommand
from delegation.harnesses.result import HarnessResult
from delegation.harnesses.running import run_harness
from delegation.harnesses.template import Template
from delegation.request import DelegationRequest
from tests.doubles.harness_jobs import harness_settings, job, program, repository


def ran(place: Path, body: str, called: str | None = None, **of_job: Any) -> HarnessResult:
    output = of_job.pop("output", "stdout")
    settings, template = harness_settings(place), Template(argv=("/bin/sh", "-c", body), output=output)
    return run_harness(
        OwnCommand(settings, template, called), job(place, "command", template=template, **of_job), settings
    )


@pytest.mark.parametrize("body", ["echo fixed >> a.py", "echo fixed >> a.py; echo '1 file left alone' >&2"])
def test_where_a_change_is_wanted_a_program_need_not_say_anything(tmp_path: Path, body: str):
    result = ran(tmp_path, body, needs_answer=False)
    assert (result.status, result.failure_kind, result.answer) == ("done", None, None)


def test_where_an_answer_is_wanted_silence_is_none(tmp_path: Path):
    result = ran(tmp_path, "echo fixed >> a.py")
    assert (result.status, result.failure_kind) == ("failed", "empty_answer")
    assert (result.failure_message or "").endswith("it printed nothing")


@pytest.mark.parametrize(
    ("body", "output", "kind"),
    [
        ("exit 3", "stdout", "process"),
        ("echo 'Error 429: too many requests' >&2", "stdout", "throttled"),
        ("exit 0", "json", "empty_answer"),
    ],
)
def test_silence_for_another_reason_stays_a_failure(tmp_path: Path, body: str, output: str, kind: str):
    assert ran(tmp_path, body, output=output, needs_answer=False).failure_kind == kind


def test_an_object_without_an_answer_is_told_which_keys_hold_one(tmp_path: Path):
    result = ran(tmp_path, """echo '{"hello": 1}'""", output="json")
    assert result.failure_kind == "empty_answer"
    for key in ("response", "result", "answer", "output", "text", "message"):
        assert repr(key) in (result.failure_message or "")


def test_a_failure_begins_with_the_agents_name(tmp_path: Path):
    assert (ran(tmp_path, "echo no >&2; exit 3", called="fixer").failure_message or "").startswith("fixer: exit code 3")


def admitted(place: Path, **fields: Any) -> DelegationRequest:
    """By a user with two commands, one of them not installed."""
    config = place / "delegate" / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    fixer = program(place, "fix-it", "#!/bin/sh\n")
    config.write_text(
        f'[commands.fixer]\nargv = ["{fixer}"]\n\n[commands.missing]\nargv = ["no-such-program"]\n', encoding="utf-8"
    )
    card = Card(task="Do it.", repo=str(repository(place / "repo")), **fields)
    return admit(card, harness_settings(place), tool="run")


def test_a_program_that_is_missing_is_named_with_its_table(tmp_path: Path):
    with pytest.raises(UsageError) as told:
        admitted(tmp_path, agent="missing")
    said = str(told.value)
    assert said.startswith("'no-such-program' is not on PATH: install it, or change argv in ")
    assert said.endswith("delegate.toml, line 5: [commands.missing]")


def test_an_unknown_agent_is_told_of_the_programs_and_of_the_nearest(tmp_path: Path):
    with pytest.raises(NotFoundError, match=r"did you mean 'fixer'\? There are: coder, fixer, missing$"):
        admitted(tmp_path, agent="fixr")


def test_a_model_that_the_programs_arguments_do_not_take_is_said_to_be_lost(tmp_path: Path):
    (warning,) = admitted(tmp_path, agent="fixer", model="foo").warnings
    assert warning == "model 'foo' does not reach agent 'fixer': its argv has no {model}"
