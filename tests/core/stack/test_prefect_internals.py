"""Names that Prefect does not promise: each is there now, and what runs, and is said, where one is not."""

import importlib
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delegation.home import Home
from deployments import prefect_internals, quiet_server
from deployments.configuration import Configuration
from deployments.doctor import doctor
from deployments.keeper import Keeper
from deployments.launcher import left_out
from deployments.places import Places
from deployments.prefect_internals import FLOW_PROCESS, SERVER, WORKER, Leaning, problem, problems
from deployments.stack import Stack
from deployments.worker import worker_child

NAMES = [
    pytest.param(one, module, name, id=f"{module}.{name}")
    for one in (WORKER, FLOW_PROCESS, SERVER)
    for module, names in one.names.items()
    for name in names
]


@pytest.fixture
def here(delegate_home: Path) -> Configuration:
    return Configuration(Home(delegate_home, delegate_home / "config" / "delegate.toml"))


def hide(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """As in a Prefect whose module calls it otherwise."""
    source_of = prefect_internals.source_of

    def without(wanted: str) -> str:
        text = source_of(wanted)
        return re.sub(rf"\b{name}\b", f"other_{name}", text) if wanted == module else text

    monkeypatch.setattr(prefect_internals, "source_of", without)


def test_nothing_is_missing_of_the_prefect_that_is_installed():
    assert problems() == ()


@pytest.mark.parametrize(("one", "module", "name"), NAMES)
def test_a_name_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch, one: Leaning, module: str, name: str):
    hide(monkeypatch, module, name)
    assert problem(one) == f"this Prefect has no {module}.{name}: {one.instead}"


def test_a_module_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prefect_internals, "source_of", _nothing)
    assert len(problems()) == 3
    monkeypatch.undo()
    assert (
        prefect_internals.source_of("prefect.no.such_module")
        == prefect_internals.source_of("no_such_package.at_all")
        == ""
    )


def _nothing(_: str) -> str:
    return ""


def test_where_the_worker_lacks_a_name_prefects_own_is_started(here: Configuration, monkeypatch: pytest.MonkeyPatch):
    def started() -> tuple[list[str], dict[str, str]]:
        child = worker_child(Places(here.home), {"A": "1"}, {"B": "2"})
        assert {"A", "B"} <= set(child.env)
        return list(child.argv), dict(child.env)

    argv, env = started()
    assert argv[2:4] == ["-m", "deployments.event_worker"]
    assert "PREFECT_WORKER_QUERY_SECONDS" not in env
    hide(monkeypatch, "prefect.runner._starter_engine", "EngineCommandStarter")
    stock, by_the_clock = started()
    assert stock[2:6] == ["-m", "prefect", "worker", "start"]
    assert by_the_clock["PREFECT_WORKER_QUERY_SECONDS"] == "0.5"
    assert stock[-4:] == argv[-4:]


def test_a_flow_process_that_leaves_nothing_out_runs_prefects_engine_as_it_is(monkeypatch: pytest.MonkeyPatch):
    from prefect.events.related import RESOURCE_CACHE

    flow_engine: Any = importlib.import_module("prefect.flow_engine")
    usual = flow_engine.observe_flow_run_suspension
    monkeypatch.setattr(flow_engine, "observe_flow_run_suspension", usual)  # put back at the end
    monkeypatch.setenv(left_out.RELATED_VARIABLE, '{"flow.1": {"id": "1", "name": "f", "tags": []}}')
    monkeypatch.setattr(left_out, "leaves_out", False)
    left_out.leave_out(os.environ)
    assert flow_engine.observe_flow_run_suspension is usual
    assert "flow.1" not in RESOURCE_CACHE
    assert left_out.RELATED_VARIABLE not in os.environ

    monkeypatch.setattr(left_out, "leaves_out", True)
    left_out.leave_out(os.environ)
    assert flow_engine.observe_flow_run_suspension is not usual


def test_a_server_whose_clock_is_not_found_starts_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    done: list[str] = []
    monkeypatch.setattr("prefect.cli.app", lambda: done.append("started"))
    monkeypatch.setattr(quiet_server, "work_less", lambda: done.append("slowed"))
    monkeypatch.setattr(quiet_server.sys, "argv", ["quiet_server", "--port", "1"])
    quiet_server.main()
    hide(monkeypatch, "docket.worker", "scheduling_resolution")
    quiet_server.main()
    assert done == ["slowed", "started", "started"]
    assert "no docket.worker.scheduling_resolution" in capsys.readouterr().err


def test_doctor_and_the_keepers_log_say_once_what_is_missing(
    here: Configuration, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def told() -> tuple[Any, ...]:
        (found,) = [each for each in doctor(here)[1]["findings"] if each["name"] == "prefect"]
        stack: Any = Stack(here)
        stack.database = SimpleNamespace(warnings=())
        stack._finish(SimpleNamespace(finish=lambda: None))
        Keeper._tell_warnings(SimpleNamespace(_stack=stack))  # type: ignore[arg-type]  # all that it looks at
        return found["verdict"], found["detail"], capsys.readouterr().err.count("keeper: warning: this Prefect has no")

    assert (told()[0], told()[2]) == ("ok", 0)
    hide(monkeypatch, "prefect.workers.base", "_propose_submitting_state")
    verdict, detail, times = told()
    assert (verdict, times) == ("optional", 1)
    assert detail.endswith("`prefect worker start` starts the runs, by the clock")
