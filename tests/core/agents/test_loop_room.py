"""A long conversation stays inside the model's context, and nothing that counts is dropped."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripted_model import ENDPOINT, Step, calls, says

from delegation.chat.messages import Text
from delegation.errors import EndpointError
from delegation.receipt import Usage
from tests.core.agents.runs import READ, Runs


def conversation_size(messages: Sequence[Any]) -> int:
    return sum(
        len(getattr(block, "text", "") or str(getattr(block, "input", "")))
        for message in messages
        for block in message.blocks
    )


@pytest.fixture
def big(root: Path) -> None:
    (root / "big").write_text("".join(f"this is line number {number}\n" for number in range(1, 20_001)))


def page(number: int) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": "big", "offset": 500 * number + 1, "limit": 500}


@pytest.mark.usefixtures("big")
def test_a_long_run_stays_inside_a_context_of_32k_and_every_request_is_well_formed(run: Runs, a_py: Path):
    small = ENDPOINT.model_copy(update={"context_tokens": 32_000})
    steps: list[Step] = [calls(READ, ("list_files", {}), ("read_file", {"path": "none"}), usage=Usage(requests=1))]
    uncounted = Usage(requests=1)
    steps += [calls(page(n), usage=uncounted) for n in range(40)]
    result = run([*steps, says("done")], endpoint=small)
    assert result.stop_reason == "submitted"
    sizes = [conversation_size(asked.messages) for asked in run.model.asked]
    assert max(sizes) / 3.5 < 32_000 - 4096
    assert all(asked.messages[0].blocks[0] == Text("Fix a.py.") for asked in run.model.asked)
    assert "[dropped to save room: read_file 'big' lines 1-500 of 20000. Call the tool again" in str(
        run.model.asked[-1].messages
    )
    assert "number 20000" in run.model.asked[-1].last_text


@pytest.mark.usefixtures("big")
def test_a_request_the_endpoint_finds_too_long_is_trimmed_and_sent_once_more(run: Runs, root: Path):
    steps: list[Step] = [calls(page(n)) for n in range(12)]
    too_long = EndpointError("context_overflow", "too long")
    result = run([*steps, too_long, says("done")])
    assert result.stop_reason == "submitted"
    assert conversation_size(run.model.asked[-1].messages) < 0.7 * conversation_size(run.model.asked[-2].messages)


def test_what_never_fits_is_a_failure_of_its_own_kind(run: Runs):
    too_long = EndpointError("context_overflow", "too long")
    result = run([too_long, too_long])
    assert (result.failure and result.failure.kind, len(run.model.asked)) == ("context_overflow", 2)


def test_asking_again_for_what_was_dropped_is_not_repetition(run: Runs, root: Path):
    small = ENDPOINT.model_copy(update={"context_tokens": 16_000})
    for number in range(8):
        (root / f"f{number}").write_text(f"{number} is a line\n" * 450)
    rounds = [calls(("read_file", {"path": f"f{number}"})) for number in range(8)] * 3
    result = run([*rounds, says("done")], endpoint=small)
    assert result.stop_reason == "submitted"
