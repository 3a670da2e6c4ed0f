"""What became of a delegation and when, from its record alone."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from delegation.agents.trajectory import Trajectory
from delegation.home import Home
from delegation.receipt import CommandRun, Receipt, Verification
from delegation.records import Progress, RecordStore
from delegation.records.applied import Applied, note_applied
from delegation.records.step_log import NAME, log_step, steps_of
from delegation.records.timeline import Moment, timeline_of

ID = "dg-20261130t113652417-aaaa"
BEGUN = datetime(2026, 11, 30, 11, 36, 52, 417_000, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


@pytest.fixture
def store(tmp_path: Path, a_request: Callable[..., Any]) -> RecordStore:
    made = RecordStore(Home(root=tmp_path / "home", config_file=tmp_path / "c.toml"))
    made.create(a_request(ID), 1)
    (made.folder(ID) / NAME).unlink()  # its time is of now
    made.write_status(ID, Progress(step="submitted", updated_at=BEGUN))
    return made


def run(verdict: str, seconds: float, *, cached: bool = False) -> CommandRun:
    tests = {"t::one": "passed", "t::two": "failed" if verdict == "failed" else "passed"}
    return CommandRun.model_validate(
        {"verdict": verdict, "exit_code": 0, "seconds": seconds, "tests": tests, "output_tail": "", "cached": cached}
    )


def judged(base: CommandRun, candidate: CommandRun) -> Verification:
    return Verification(command="pytest -q", verdict="passed", base=base, candidate=candidate)


def steps(store: RecordStore, *parts: tuple[float, dict[str, Any]]) -> None:
    for seconds, facts in parts:
        store.write_status(ID, Progress(updated_at=at(seconds), **facts))


def told(moments: list[Moment]) -> list[tuple[str, float | None]]:
    return [(each.what, each.seconds) for each in moments]


def test_every_step_wait_and_verify_run_is_there_with_its_seconds(
    store: RecordStore, a_receipt: Callable[..., Receipt]
):
    until = at(100)
    steps(
        store,
        (1, {"step": "prepare"}),
        (3, {"step": "worktree"}),
        (4, {"step": "waiting", "queue_reason": "bucket_full", "detail": "4 of 4 slots are taken"}),
        (9, {"step": "waiting", "queue_reason": "cooldown", "detail": "glm refuses", "parked_until": until}),
        (100, {"step": "prepare"}),
        (101, {"step": "agent"}),
        (102, {"step": "agent", "turn": 1}),
        (111, {"step": "collect"}),
        (112, {"step": "verify", "detail": "pytest -q"}),
        (120, {"step": "record"}),
    )
    receipt = a_receipt(verification=judged(run("failed", 2.5), run("passed", 4.5)), ended_at=at(121))
    store.write_receipt(receipt)
    steps(store, (121, {"step": "done", "detail": "verified: 1 file, +1 -1"}))

    found = timeline_of(store, ID)

    assert told(found) == [
        ("submitted", 1.0), ("prepare", 2.0), ("worktree", 1.0), ("waiting", 5.0), ("parked", 91.0), ("prepare", 1.0),
        ("agent", 10.0), ("collect", 1.0), ("verify", 8.0), ("verify base", 2.5), ("verify candidate", 4.5),
        ("record", 1.0), ("ended", None),
    ]  # fmt: skip
    details = {each.what: each.detail for each in found}
    assert details["waiting"] == "bucket_full: 4 of 4 slots are taken"
    assert details["parked"] == "until 2026-11-30 11:38:32 UTC: cooldown: glm refuses"
    assert (details["verify"], details["verify base"]) == ("pytest -q", "failed: 2 tests, 1 failing")
    assert details["ended"] == "verified: 1 file, +1 -1"


def test_turns_refusals_and_changes_of_model_are_of_the_agents_log(store: RecordStore, monkeypatch: pytest.MonkeyPatch):
    log, clock = Trajectory(store.folder(ID) / "trajectory.jsonl"), [0.0]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return at(clock[0])

    monkeypatch.setattr("delegation.agents.trajectory.datetime", Clock)
    for seconds, kind, facts in (
        (2, "header", {"alias": "glm"}),
        (2.5, "request", {"turn": 1}),
        (6, "turn", {"turn": 1, "tool_calls": 2, "last_tool": "edit_file"}),
        (7, "wait", {"alias": "glm", "failure_kind": "throttled", "failure_message": "429", "asked": True}),
        (8, "gave_up", {"alias": "glm"}),
        (8, "handover", {"from": "glm", "to": "qwen", "failure_kind": "quota", "failure_message": "used up"}),
        (9, "resume", {"turn": 1}),
        (9.5, "request", {"turn": 2}),
        (11, "turn", {"turn": 2, "tool_calls": 2, "last_tool": None}),
        (12, "end", {"stop_reason": "submitted"}),
    ):
        clock[0] = seconds
        log.append(kind, **facts)  # pyright: ignore[reportArgumentType]
    steps(store, (1, {"step": "agent"}), (13, {"step": "collect"}))

    found = timeline_of(store, ID)

    assert told(found) == [
        ("submitted", 1.0), ("agent", 12.0), ("agent begins", None), ("turn 1", 3.5), ("refused", None),
        ("failover", None), ("taken up again", None), ("turn 2", 1.5), ("agent ends", None), ("collect", None),
    ]  # fmt: skip
    details = {each.what: each.detail for each in found}
    assert details["turn 1"] == "2 tool calls so far, last edit_file"
    assert details["refused"] == "glm: throttled: 429"
    assert details["failover"] == "glm -> qwen: quota: used up"


def test_judging_again_adds_to_what_was_there_and_each_verdict_stands_at_its_own_run(
    store: RecordStore, a_receipt: Callable[..., Receipt]
):
    for begin, verdict in ((10, "failed"), (50, "passed")):
        steps(store, (begin, {"step": "submitted", "detail": "verify again"}), (begin + 1, {"step": "verify"}))
        runs = judged(run("failed", 1.0, cached=begin == 50), run(verdict, float(begin)))
        store.write_receipt(a_receipt(verification=runs, ended_at=at(begin + 5)))
        steps(store, (begin + 5, {"step": "done", "detail": verdict}))
    note_applied(store.folder(ID), Applied(at=at(90), how="branch", where="mended"))

    found = timeline_of(store, ID)

    assert [
        (each.what, each.detail, each.seconds) for each in found if each.kind in ("verify", "ended", "applied")
    ] == [
        ("verify base", "failed: 2 tests, 1 failing", 1.0),
        ("verify candidate", "failed: 2 tests, 1 failing", 10.0),
        ("ended", "failed", None),
        ("verify base", "failed: 2 tests, 1 failing: kept from an earlier run", None),
        ("verify candidate", "passed: 2 tests", 50.0),
        ("ended", "passed", None),
        ("applied", "as branch mended", None),
    ]


def test_an_older_record_tells_what_it_noted_and_guesses_nothing(store: RecordStore, a_receipt: Callable[..., Receipt]):
    (store.folder(ID) / NAME).unlink()
    store.write_receipt(a_receipt(ended_at=at(60)))
    assert [(each.what, each.at, each.seconds) for each in timeline_of(store, ID)] == [
        ("submitted", BEGUN, None),
        ("ended", at(60), None),
    ]


def test_damaged_logs_cost_only_what_they_held(store: RecordStore):
    steps(store, (1, {"step": "prepare"}))
    with (store.folder(ID) / NAME).open("ab") as stream:
        stream.write(b'{"step": "worktree", "upda')
    (store.folder(ID) / "trajectory.jsonl").write_bytes(b"\xff\xff{\n")
    (store.folder(ID) / "receipt.1.json").write_text("{", encoding="utf-8")
    steps(store, (5, {"step": "agent"}))
    assert told(timeline_of(store, ID)) == [("submitted", 1.0), ("prepare", 4.0), ("agent", None)]


def test_the_last_answer_which_calls_no_tool_is_a_turn_too(store: RecordStore):
    log = store.folder(ID) / "trajectory.jsonl"
    events = [
        (1, "request", {"turn": 1}), (2, "reply", {"turn": 1}), (3, "turn", {"turn": 1}),
        (4, "request", {"turn": 2}), (10, "reply", {"turn": 2}), (11, "end", {"stop_reason": "submitted"}),
    ]  # fmt: skip
    lines = [
        json.dumps({"seq": number, "time": at(seconds).isoformat(), "type": kind, **facts})
        for number, (seconds, kind, facts) in enumerate(events)
    ]
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = [(each.what, each.seconds) for each in timeline_of(store, ID) if each.kind in ("turn", "agent")]
    assert told == [("turn 1", 2.0), ("turn 2", 6.0), ("agent ends", None)]


def test_a_turn_or_a_heartbeat_is_no_new_step(store: RecordStore):
    folder = store.folder(ID)
    for turn in range(3):
        log_step(folder, Progress(step="agent", turn=turn, detail=f"turn {turn}"))
    log_step(folder, Progress(step="waiting", queue_reason="cooldown"))
    log_step(folder, Progress(step="waiting", queue_reason="cooldown", queue_position=3))
    assert [(each.step, each.detail) for each in steps_of(folder)][1:] == [("agent", "turn 0"), ("waiting", None)]


def test_a_step_that_cannot_be_noted_fails_nothing(store: RecordStore):
    (store.folder(ID) / NAME).unlink()
    (store.folder(ID) / NAME).mkdir()
    store.write_status(ID, Progress(step="agent"))
    status = store.status(ID)
    assert status is not None
    assert status.step == "agent"
