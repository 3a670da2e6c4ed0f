"""Who is asked, what is counted, and the lines around an answer."""

import json
import os
import pickle
import random
import threading
from dataclasses import dataclass

import pytest

from delegation.errors import Cancelled, EndpointError, UsageError, WorkFailed
from delegation.reading.metrics import Metrics, append_metrics
from delegation.reading.packing.manifest import Manifest, PackedFile, Skip
from delegation.reading.providers import AllFailed, drawn_order, first_answer
from delegation.reading.wording import footer_line, header_line, output_tokens, usable_answer


@dataclass(frozen=True)
class Named:
    name: str
    weight: float = 1.0


A, B, C = Named("a"), Named("b", 2.0), Named("c", 7.0)


@pytest.mark.parametrize(
    ("chances", "order"),
    [
        ((0.0, 0.0), "abc"),
        ((0.05, 0.5), "acb"),
        ((0.15, 0.0), "bac"),
        ((0.3, 0.9), "cba"),
        ((0.9999999999999999, 0.0), "cab"),
    ],
)
def test_the_order_is_drawn_by_weight_without_putting_back(chances, order):
    balls = iter((*chances, 0.5))
    assert "".join(each.name for each in drawn_order([A, B, C], lambda: next(balls))) == order


def test_the_first_place_goes_by_weight_over_many_draws():
    chance = random.Random(7).random
    first = [drawn_order([A, B, C], chance)[0].name for _ in range(20_000)]
    assert {name: round(first.count(name) / 20_000, 1) for name in "abc"} == {"a": 0.1, "b": 0.2, "c": 0.7}


def test_providers_without_weight_come_last_in_their_order():
    zero, other = Named("z", 0.0), Named("y", 0.0)
    assert [each.name for each in drawn_order([zero, A, other], lambda: 0.99)] == ["a", "z", "y"]
    assert drawn_order([], lambda: 0.5) == ()


def test_each_is_asked_once_until_one_answers():
    asked: list[str] = []

    def ask(provider: Named, waiting: bool) -> str:
        asked.append(provider.name)
        if provider.name == "c":
            return "answer"
        raise EndpointError("overloaded", f"{provider.name} is down")

    result = first_answer([A, B, C], ask)
    assert (result.answer, result.provider, result.failovers, asked) == ("answer", C, 2, ["a", "b", "c"])
    assert [failure.kind for failure in result.failures] == ["overloaded", "overloaded"]


def test_all_failed_names_their_number_and_the_last_failure():
    def ask(provider: Named, waiting: bool) -> str:
        raise EndpointError("unreachable", f"{provider.name} is down")

    with pytest.raises(AllFailed) as told:
        first_answer([A, B], ask)
    assert str(told.value) == "all 2 provider(s) failed; last error: b is down"
    assert told.value.kind == "unreachable"
    again = pickle.loads(pickle.dumps(told.value))
    assert (str(again), again.kind, len(again.failures)) == (str(told.value), "unreachable", 2)


@pytest.mark.parametrize(
    "failure", [WorkFailed("privacy", "leaves the lane"), Cancelled("stopped"), KeyboardInterrupt()]
)
def test_what_is_not_the_providers_failure_ends_it_at_once(failure):
    asked: list[str] = []

    def ask(provider: Named, waiting: bool) -> str:
        asked.append(provider.name)
        raise failure

    with pytest.raises(type(failure)):
        first_answer([A, B], ask)
    assert asked == ["a"]


def test_nobody_to_ask_is_an_error_of_the_caller():
    with pytest.raises(UsageError, match="no provider is left"):
        first_answer([], lambda provider, waiting: "x")


LINE = Metrics(
    tool="analyze", provider="p", model="m", input_tokens=None, output_tokens=3, input_bytes=10, duration_ms=5,
    status="ok",
)  # fmt: skip


def test_a_metrics_line_has_its_keys_and_unknown_is_null(tmp_path):
    path = tmp_path / "deep" / "metrics.jsonl"
    append_metrics(path, LINE)
    append_metrics(
        path, LINE.model_copy(update={"status": "error", "provider": "-", "message": "bad\nnews" + "x" * 5000})
    )
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert list(first) == [
        "ts", "uuid", "tool", "provider", "model", "input_tokens", "output_tokens", "input_bytes", "duration_ms",
        "status", "session_id", "files_attached", "failovers",
    ]  # fmt: skip
    assert (first["input_tokens"], first["output_tokens"]) == (None, 3)
    assert (second["provider"], second["message"][:8], len(second["message"])) == ("-", "bad\nnews", 1000)
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_many_threads_never_mix(tmp_path):
    path = tmp_path / "metrics.jsonl"
    threads = [
        threading.Thread(target=lambda: [append_metrics(path, LINE) for _ in range(50)], daemon=True) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [json.loads(line)["tool"] for line in path.read_text().splitlines()] == ["analyze"] * 400


@pytest.mark.parametrize("kind", ["folder", "below a file", "pipe", "device", "dangling"])
def test_metrics_that_cannot_be_written_are_one_warning(tmp_path, kind, capsys):
    path = tmp_path / "metrics.jsonl"
    match kind:
        case "folder":
            path.mkdir()
        case "below a file":
            path.write_text("x")
            path = path / "metrics.jsonl"
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/full")
        case _:
            path.symlink_to("/proc/nowhere/metrics")
    append_metrics(path, LINE)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("warning: the metrics line was not written to ")
    assert captured.err.count("\n") == 1


def test_metrics_do_not_throw_when_the_warning_cannot_be_given(tmp_path):
    def broken(text: str) -> None:
        raise BrokenPipeError

    append_metrics(tmp_path, LINE, warn=broken)


def test_the_header_has_its_fixed_form():
    line = header_line("analyze", provider="p", model="m", input_tokens=12, output_tokens=None, session_id="rd-1")
    assert line == "[delegate analyze] provider=p model=m in=12 out=unknown session=rd-1"


def manifest(*, truncated: bool, skipped: int) -> Manifest:
    file = PackedFile(path="a", size=1, lines=1, tokens=1, sha256="0", truncated=truncated)
    skips = tuple(Skip(path=f"s{number}", reason="binary") for number in range(skipped))
    return Manifest(files=(file,), skipped=skips, sha256="0", fence="[0]", tokens=1)


def test_the_footer_has_its_fixed_form_and_is_there_only_when_something_is_missing():
    assert footer_line(manifest(truncated=False, skipped=0)) is None
    assert footer_line(manifest(truncated=True, skipped=0)) == "[delegate analyze] packed 1 file(s), 0 skipped"
    assert footer_line(manifest(truncated=False, skipped=2)) == "[delegate analyze] packed 1 file(s), 2 skipped"


@pytest.mark.parametrize(
    ("asked", "configured", "limit"),
    [(None, None, 4096), (None, 900, 900), (50, 900, 200), (None, 10, 200), (700, 10, 700)],
)
def test_an_answer_may_be_at_least_two_hundred_tokens_long(asked, configured, limit):
    assert output_tokens(asked, configured) == limit


@pytest.mark.parametrize(
    ("text", "cut", "kind"), [("", False, "empty_answer"), (" \n", True, "empty_answer"), ("x", True, "truncated")]
)
def test_an_empty_or_cut_answer_is_an_error_with_the_remedy(text, cut, kind):
    with pytest.raises(EndpointError, match="raise max_output_tokens") as told:
        usable_answer(text, cut=cut, limit=200)
    assert told.value.kind == kind
    assert usable_answer("fine", cut=False, limit=200) == "fine"
