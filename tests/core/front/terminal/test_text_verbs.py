"""The verbs that answer with a text: task, agentic and batch, each ended as soon as it is submitted."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from front import Front, Ran

USAGE = {"input_tokens": 1200, "output_tokens": 34, "requests": 1}
Call = Callable[..., Ran]


@pytest.fixture
def playing(stacked: Front, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Ends every delegation as soon as it is submitted, by the first of these whose word occurs in its task."""

    def play(**outcomes: dict[str, Any]) -> None:
        from mcp_entry.verbs.service import Service

        submit = Service.submit

        def submitted(self: Service, card: Any, **options: Any) -> Any:
            started = submit(self, card, **options)
            word = next(word for word in outcomes if word in card.task or word == "any")
            stacked.end(started.id, **outcomes[word])
            return started

        monkeypatch.setattr(Service, "submit", submitted)

    return play


ANSWER = {"outcome": "answered", "answer": "42", "usage": USAGE}
GONE = {"outcome": "failed", "failure_kind": "model_not_found", "failure_message": "gone"}
LINE = "Error: the endpoint does not serve this model (any more): gone"


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (("task", "the prompt"), ""),
        (("task", "-"), "the prompt"),
        (("task",), "the prompt"),
        (("task", "--task-file", "p.txt"), ""),
    ],
)
def test_a_prompt_comes_from_an_argument_a_dash_a_pipe_or_a_file(
    stacked: Front, call: Call, playing: Callable[..., None], words: tuple[str, ...], stdin: str
):
    playing(any=ANSWER)
    (stacked.repo / "p.txt").write_text("the prompt")
    ran = call(*words, stdin=stdin)
    assert (ran.code, ran.stdout) == (0, "42\n\n[tokens: 1200 prompt / 34 completion / 1234 total]\n"), ran.stderr
    assert stacked.records.request(stacked.records.ids()[0]).card.task == "the prompt"


def test_a_prompt_that_is_empty_is_usage(stacked: Front, call: Call):
    ran = call("task", stdin="  ")
    assert (ran.code, ran.stdout) == (2, "")
    assert "the prompt is empty: give it as an argument, with --task-file, or on stdin" in ran.stderr


def test_a_withdrawn_model_is_one_error_line_and_the_workers_stack_only_when_asked(
    stacked: Front, call: Call, playing: Callable[..., None]
):
    playing(any=GONE)
    ran = call("task", "x")
    assert (ran.code, ran.stdout, ran.stderr) == (1, "", f"{LINE}\n")
    folder = stacked.records.folder(stacked.records.ids()[0])
    loud = call("task", "x", "--traceback")
    assert (loud.code, loud.stderr.splitlines()[-1]) == (1, LINE)
    assert "no stack was kept" in loud.stderr
    assert stacked.service().stack_of_failure(folder.name).startswith("no stack was kept")
    (folder / "failure.txt").write_text("Traceback (most recent call last):\n  ...\n")
    assert stacked.service().stack_of_failure(folder.name).startswith("Traceback")


def test_with_json_the_receipt_is_printed_whatever_the_outcome(
    stacked: Front, call: Call, playing: Callable[..., None]
):
    playing(any=GONE)
    ran = call("task", "x", "--json")
    assert (ran.code, json.loads(ran.stdout)["failure_kind"]) == (1, "model_not_found")


def test_agentic_takes_a_folder_relative_to_the_current_one(stacked: Front, call: Call, playing: Callable[..., None]):
    playing(any=ANSWER)
    (stacked.repo / "sub").mkdir()
    (stacked.repo / "sub" / "a").write_text("a")
    ran = call("agentic", "x", "--dir", "sub", "--max-iterations", "3", "--timeout", "60", "--capture-transcript")
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "[delegation_id: 1]"), ran.stderr
    request = stacked.records.request(stacked.records.ids()[0])
    assert (request.workdir, request.card.isolation, request.limits.max_turns) == ("sub", "in_place", 3)
    assert request.limits.timeout_seconds == 60
    assert call("agentic", "x").code == 2


JOBS = """
# comment
  # another
{"name": "one", "task": "first"}
{"prompt": "second", "system_prompt": "Be brief.", "capture_transcript": true}

{"name": "three", "task": "third", "dir": ".", "max_iterations": 5}
"""


def test_each_job_has_a_file_of_its_own_failures_too(stacked: Front, call: Call, playing: Callable[..., None]):
    playing(second=GONE, any=ANSWER)
    (stacked.repo / "jobs.jsonl").write_text(JOBS)
    ran = call("batch", "jobs.jsonl", "--out-dir", "out/deep")
    assert (ran.code, ran.stdout) == (1, ""), ran.stderr
    texts = {path.name: path.read_text() for path in (stacked.repo / "out" / "deep").iterdir()}
    good = "42\n\n[tokens: 1200 prompt / 34 completion / 1234 total]\n"
    assert texts == {"one.txt": good, "job-5.txt": f"{LINE}\n\n[delegation_id: 2]\n", "three.txt": good}
    kinds = [stacked.records.request(each) for each in sorted(stacked.records.ids())]
    assert [(each.card.isolation, each.limits.max_turns) for each in kinds] == [
        ("worktree", 1),
        ("worktree", 1),
        ("in_place", 5),
    ]


def test_without_a_folder_results_go_to_stdout_in_the_order_of_the_jobs(
    stacked: Front, call: Call, playing: Callable[..., None]
):
    playing(any=ANSWER)
    ran = call("batch", "-", stdin='{"task": "a"}\n{"name": "b", "task": "b"}\n')
    assert ran.code == 0, ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.startswith("===")] == ["=== job-1 ===", "=== b ==="]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"task": "a"}\nnot json', "line 2: not JSON"),
        ('{"task": "a"}\n["b"]', "line 2: a job is an object"),
        ('{"task": "a", "colour": 1}', "line 1: colour is an unknown key"),
        ('{"task": "a", "working_dir": ".", "system_prompt": "x"}', "line 1: system_prompt is an unknown key"),
        ('{"task": "a", "prompt": "b"}', "line 1: task and prompt mean the same"),
        ('{"name": "../x", "task": "a"}', "line 1: name '../x' cannot be a file's"),
        ('{"name": "x", "task": "a"}\n{"name": "X", "task": "b"}', "two jobs are called 'X'"),
        ("# nothing\n\n", "there is no job in it"),
        ('{"task": ""}', "line 1: task must not be empty"),
        ('{"tsk": "a"}', "line 1: task is missing; tsk is an unknown key: did you mean 'task'?"),
        ('{"promt": "a"}', "line 1: prompt is missing; promt is an unknown key: did you mean 'prompt'?"),
    ],
)
def test_a_line_that_is_no_job_stops_all_before_any_is_run(stacked: Front, call: Call, lines: str, said: str):
    (stacked.repo / "jobs.jsonl").write_text(lines)
    ran = call("batch", "jobs.jsonl")
    assert (ran.code, said in ran.stderr) == (2, True), ran.stderr
    assert stacked.records.ids() == []


def test_a_job_that_cannot_be_submitted_stops_no_other(stacked: Front, call: Call, playing: Callable[..., None]):
    playing(any=ANSWER)
    (stacked.repo / "jobs.jsonl").write_text('{"task": "a", "backend": "nobody"}\n{"task": "b"}\n')
    ran = call("batch", "jobs.jsonl", "--json")
    first, second = map(json.loads, ran.stdout.splitlines())
    assert (ran.code, first["answered"], second["answered"]) == (1, False, True)
    assert first["text"].startswith("Error: unknown model 'nobody'")


def test_a_full_queue_makes_the_rest_of_a_batch_wait(stacked: Front, call: Call, playing: Callable[..., None]):
    playing(any=ANSWER)
    stacked.environ["DELEGATE_MAX_QUEUE"] = "1"
    asked: list[int] = []

    def end_runs(method: str, path: str) -> None:
        if path == "/flow_runs/count":  # a run ends only once a second one was refused
            asked.append(len(stacked.prefect.runs))
            if asked.count(1) == 2:
                for run in list(stacked.prefect.runs):
                    stacked.prefect.end(run, "COMPLETED")

    stacked.prefect.refuse = end_runs
    (stacked.repo / "jobs.jsonl").write_text('{"task": "a"}\n{"task": "b"}\n')
    ran = call("batch", "jobs.jsonl")
    assert (ran.code, ran.stdout.count("42")) == (0, 2), ran.stderr
    assert asked[:3] == [0, 1, 1]
