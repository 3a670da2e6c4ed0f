"""Prefect over its REST API: what is asked, how often, and what the front door makes of the answers."""

import socket
from dataclasses import replace

import pytest
from prefect_double import PrefectDouble

from delegation.errors import StackError, StackNotRunning
from delegation.stack_state import FLOWS_MISSING
from mcp_entry.stack.prefect_api import NewRun, PrefectApi

RUN = NewRun(
    name="dg-1 title",
    parameters={"request": {"id": "dg-1"}},
    tags=["dg-1"],
    work_queue="local-now",
    idempotency_key="dg-1",
)


def test_the_same_idempotency_key_gives_the_same_run():
    with PrefectDouble() as prefect, PrefectApi(prefect.api_url) as api:
        deployment = api.deployment()
        first, second = (
            api.create_flow_run(deployment, RUN),
            api.create_flow_run(deployment, replace(RUN, name="other")),
        )

    assert (first.id, first.name, first.state) == (second.id, "dg-1 title", "SCHEDULED")


def test_a_busy_server_is_asked_again_until_it_answers():
    answers = iter([503, 503, None, 503])
    with PrefectDouble(refuse=lambda method, path: next(answers, None)) as prefect, PrefectApi(prefect.api_url) as api:
        api.deployment()
        run = api.create_flow_run(api.deployment(), RUN)

        assert list(prefect.runs) == [run.id]
    assert [path for _, path in prefect.requests].count("/deployments/name/delegation/delegation") == 3


def test_a_server_that_stays_busy_is_given_up_with_its_own_words():
    with (
        PrefectDouble(refuse=lambda method, path: 503) as prefect,
        PrefectApi(prefect.api_url, patience_seconds=0.5) as api,
        pytest.raises(StackError, match=r"refused GET .*delegation with 503.*refused by the test"),
    ):
        api.deployment()
    assert 2 <= len(prefect.requests) <= 4


def test_nothing_answering_is_a_stack_that_is_not_running():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/api"
    with PrefectApi(url) as api:
        assert not api.is_healthy()
        with pytest.raises(StackNotRunning, match=r"nothing answers at .* run `delegate up`"):
            api.deployment()


def test_the_password_is_sent_and_a_wrong_one_is_not_healthy():
    with PrefectDouble(auth_string="admin:right") as prefect:
        with PrefectApi(prefect.api_url, auth_string="admin:right") as api:
            assert api.is_healthy()
        with PrefectApi(prefect.api_url, auth_string="admin:wrong") as api:
            assert not api.is_healthy()


def test_a_missing_deployment_says_what_to_do():
    with (
        PrefectDouble(has_deployment=False) as prefect,
        PrefectApi(prefect.api_url) as api,
        pytest.raises(StackError, match=r"no deployment 'delegation/delegation': run `delegate up`"),
    ):
        api.deployment()


def test_limits_and_queues_are_made_once_and_never_changed():
    with PrefectDouble() as prefect, PrefectApi(prefect.api_url) as api:
        for ceiling in (2, 9):
            api.ensure_limit("bucket:glm", ceiling)
            api.ensure_queue("delegations", "glm-now", limit=ceiling, priority=1)
            api.ensure_queue("delegations", "glm-night", limit=ceiling, priority=None)

    assert prefect.limits == {"bucket:glm": {"name": "bucket:glm", "limit": 2, "active": True}}
    assert prefect.queues == {
        "glm-now": {"name": "glm-now", "concurrency_limit": 2, "priority": 1},
        "glm-night": {"name": "glm-night", "concurrency_limit": 2},
    }


@pytest.mark.parametrize("status", [409, 500])
def test_losing_the_race_for_a_limit_is_fine(status: int):
    def another_was_quicker(method: str, path: str) -> int | None:
        if method == "POST" and path == "/v2/concurrency_limits/" and "bucket:glm" not in prefect.limits:
            prefect.limits["bucket:glm"] = {"name": "bucket:glm", "limit": 3}
            return status
        return None

    with PrefectDouble() as prefect, PrefectApi(prefect.api_url) as api:
        prefect.refuse = another_was_quicker
        api.ensure_limit("bucket:glm", 7)

    assert prefect.limits["bucket:glm"]["limit"] == 3


def test_cancelling_a_run_that_waits_ends_it_and_one_that_has_ended_stays():
    with PrefectDouble() as prefect, PrefectApi(prefect.api_url) as api:
        waiting = api.create_flow_run(api.deployment(), RUN)
        running = api.create_flow_run(api.deployment(), replace(RUN, idempotency_key="dg-2"))
        done = api.create_flow_run(api.deployment(), replace(RUN, idempotency_key="dg-3"))
        prefect.end(running.id, "RUNNING")
        prefect.end(done.id, "COMPLETED", "Verified")

        states = [run.state_name if (run := api.cancel(each.id)) else None for each in (waiting, running, done)]

        assert states == ["Cancelled", "Cancelling", "Verified"]
        assert api.cancel("00000000-0000-4000-8000-000000000009") is None


def test_a_run_is_scheduled_again_only_after_it_has_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mcp_entry.stack.prefect_api._ENDING_SECONDS", 0.3)
    with PrefectDouble() as prefect, PrefectApi(prefect.api_url) as api:
        run = api.create_flow_run(api.deployment(), RUN)
        with pytest.raises(StackError, match="has not ended"):
            api.reschedule(run.id)
        prefect.end(run.id, "COMPLETED", "Refuted")

        assert api.reschedule(run.id).state == "SCHEDULED"
        with pytest.raises(StackError, match="no longer has the flow run"):
            api.reschedule("00000000-0000-4000-8000-000000000009")


def test_one_connection_is_kept_for_all_and_closed_for_another_server():
    with PrefectDouble() as first, PrefectDouble() as second:
        with PrefectApi(first.api_url) as api, PrefectApi(first.api_url) as again:
            kept = api._http
            assert again._http is kept
        assert not kept.is_closed
        with PrefectApi(second.api_url) as other:
            assert other.is_healthy()
        assert kept.is_closed
        other._http.close()


def test_a_deployment_that_has_another_id_by_now_is_read_again():
    answers = iter([None, 404])
    with PrefectDouble(refuse=lambda method, path: next(answers, None)) as prefect, PrefectApi(prefect.api_url) as api:
        run = api.create_flow_run(api.deployment(), RUN)

        assert list(prefect.runs) == [run.id]
    assert [path for _, path in prefect.requests].count("/deployments/name/delegation/delegation") == 2


def test_a_deployment_whose_flow_could_not_be_imported_is_missing_for_that_reason():
    why = f"{FLOWS_MISSING}: delegation: ModuleNotFoundError: No module named 'yaml'"
    with (
        PrefectDouble(has_deployment=False) as prefect,
        PrefectApi(prefect.api_url, warnings=("another", why)) as api,
        pytest.raises(StackError) as told,
    ):
        api.deployment()
    assert "ModuleNotFoundError: No module named 'yaml'" in str(told.value)
    assert "`delegate status`" in str(told.value)
    assert "run `delegate up`" not in str(told.value)
