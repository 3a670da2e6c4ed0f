"""How a delegation is called in Prefect's UI."""

from collections.abc import Callable

import pytest

from delegation.records.labels import queue_name_of, run_name_of, tags_of
from delegation.request import DelegationRequest

ID = "dg-20261130t113652417-k7x2"


def test_a_run_is_named_by_a_short_title_and_the_ending_of_its_id(a_request: Callable[..., DelegationRequest]):
    assert run_name_of(a_request(ID, "# Fix the median\n\nof an even count")) == "Fix the median · k7x2"
    long = run_name_of(a_request(ID, "The test suite fails. Find the bug in statistics_tools.py, fix it there"))
    assert long == "The test suite fails. Find the bug in statistic… · k7x2"
    assert set(tags_of(a_request(ID, "x"))) == {ID, "repo:r", "model:local-m", "bucket:local-"}


@pytest.mark.parametrize(("bucket", "name"), [("local-", "local-now"), ("glm-coding-plan", "glm-coding-plan-now")])
def test_a_queue_is_named_by_its_bucket(bucket: str, name: str):
    assert queue_name_of(bucket, "now") == name
