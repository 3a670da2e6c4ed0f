"""The log of delegations that ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from delegation.records import dispatch_log
from delegation.records.dispatch_log import NAME, line_of, log_dispatch


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def test_a_line_has_numbers_and_names_and_neither_task_nor_answer_nor_path(tmp_path: Path, a_receipt: Any):
    receipt = a_receipt(answer="the secret answer", claim="the secret claim", failure_message="in /home/me/private")
    log_dispatch(tmp_path, receipt, tool="run", last_text="the secret answer")
    (line,) = logged(tmp_path)
    assert (line["id"], line["outcome"], line["tool"]) == (receipt.id, receipt.outcome, "run")
    assert line["hollow_success"] is False
    assert "/" not in json.dumps(line).replace(receipt.id, "")
    assert "secret" not in json.dumps(line)


@pytest.mark.parametrize(("text", "hollow"), [(None, True), ("  \n", True), ("done", False)])
def test_a_success_without_a_last_word_is_marked(a_receipt: Any, text: str | None, hollow: bool):
    assert json.loads(line_of(a_receipt(), tool="run", last_text=text))["hollow_success"] is hollow


def test_a_failure_is_never_a_hollow_success(a_receipt: Any):
    receipt = a_receipt(outcome="failed", failure_kind="quota")
    assert json.loads(line_of(receipt, tool="run", last_text=None))["hollow_success"] is False


def test_a_long_log_is_rotated_once(tmp_path: Path, a_receipt: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch_log, "LONGEST_BYTES", 1000)
    for _ in range(10):
        log_dispatch(tmp_path, a_receipt(), tool="run", last_text="x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dispatch.1.jsonl", NAME]
    assert (tmp_path / NAME).stat().st_size < 2000


def test_a_log_that_cannot_be_written_fails_nothing(tmp_path: Path, a_receipt: Any):
    (tmp_path / NAME).mkdir()
    log_dispatch(tmp_path, a_receipt(), tool="run", last_text="x")
