"""One table says for every kind of failure whether another model may do better, and what it is called."""

from typing import get_args

import pytest

from delegation.errors import FAILURE_KINDS, FailureKind
from delegation.failures import FAILURES, QueueReason, error_text, poll_kind_of, poll_queue_reason


@pytest.mark.parametrize("kind", FAILURE_KINDS)
def test_every_kind_has_a_row_with_a_text_of_its_own(kind: FailureKind):
    assert [other for other, row in FAILURES.items() if row.text == FAILURES[kind].text] == [kind]


def test_the_table_has_no_kind_that_does_not_exist():
    assert tuple(FAILURES) == FAILURE_KINDS


def test_outages_quota_limits_and_withdrawn_models_fail_over_and_nothing_else_does():
    assert {kind for kind, row in FAILURES.items() if row.fails_over} == {
        "throttled",
        "quota",
        "overloaded",
        "unreachable",
        "model_not_found",
        "stalled",
    }


def test_the_older_polls_keep_their_words():
    assert {kind: row.poll_kind for kind, row in FAILURES.items() if row.poll_kind != "other"} == {
        "throttled": "throttle",
        "quota": "quota",
        "process": "infra",
        "workdir_forbidden": "workdir_forbidden",
    }
    assert poll_kind_of("confinement", "jail_git_config: upstream set") == "jail_git_config"
    assert (poll_kind_of("confinement"), poll_kind_of("process")) == ("other", "infra")
    assert {kind: row.status for kind, row in FAILURES.items() if row.status != "failed"} == {
        "auth": "auth_failed",
        "time_limit": "timeout",
        "lost": "lost",
    }
    assert {reason: poll_queue_reason(reason) for reason in get_args(QueueReason)} == {
        "bucket_full": "global_cap",
        "cooldown": "throttle_cooldown",
        "quota": "throttle_cooldown",
        "adaptive_cap": "adaptive_cap",
        "project_cap": "global_cap",
        "checkout_busy": "workspace_busy",
        "stagger": "throttle_cooldown",
        "waiting_for_slot": "waiting_for_slot",
        "auth_failed": "auth_failed",
    }


def test_the_single_shot_text_is_one_line_that_begins_with_error():
    text = error_text("model_not_found", "404\n  no such model")
    assert text == f"Error: {FAILURES['model_not_found'].text}: 404 no such model"
    assert error_text("lost", "") == f"Error: {FAILURES['lost'].text}"
