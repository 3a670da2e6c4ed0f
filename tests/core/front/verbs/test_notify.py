"""Whose end is told: what was asked for at the front door, by the option or by the setting."""

from typing import Any

import pytest
from front import Front


def hook_of_the_run(stacked: Front) -> dict[str, Any] | None:
    (run,) = stacked.prefect.runs.values()
    return run["parameters"]["request"]["notify"]


@pytest.mark.parametrize(
    ("setting", "words", "command"),
    [
        (None, ("--notify", "mail-me"), "mail-me"),
        ("mail-me", (), "mail-me"),
        ("mail-me", ("--notify", "ring"), "ring"),
        ("mail-me", ("--notify", ""), None),
        (None, (), None),
    ],
)
def test_the_option_wins_over_the_setting_and_an_empty_one_is_none(
    stacked: Front, setting: str | None, words: tuple[str, ...], command: str | None
):
    if setting is not None:
        stacked.environ["DELEGATE_NOTIFY"] = setting
    assert stacked.delegate("run", "Fix it", "--no-wait", *words).code == 0
    hook = hook_of_the_run(stacked)
    assert (hook and hook["command"]) == command
    if hook:
        assert (hook["seconds"], hook["search_path"]) == (30, stacked.environ["PATH"])


def test_a_call_that_answers_at_once_tells_nobody(stacked: Front):
    stacked.environ["DELEGATE_NOTIFY"] = "mail-me"
    service = stacked.service()
    from mcp_entry.verbs.one_shot import question_card

    service.submit(question_card(service.settings, "Why?"), tool="delegate_task")
    assert hook_of_the_run(stacked) is None
