"""`delegate-wait`: one line for each job as it ends, and an exit code that a script can go by."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from front import ROOT, Front

from delegation.harnesses.polling import keep_beginning
from delegation.ids import new_id
from delegation.records import Progress
from mcp_entry.terminal import delegate_wait
from mcp_entry.terminal.delegate_wait import Waiter
from mcp_entry.verbs.watching import Watch
from tests.doubles.harness_jobs import program
from tests.doubles.waiting import until


@dataclass
class Clock:
    """Time that passes only while somebody pauses; `then` happens at the first pause."""

    now: float = 0.0
    then: list[Callable[[], object]] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def pause(self, _: Sequence[str], left_seconds: float | None) -> None:
        self.now += 0.5 if left_seconds is None else min(0.5, left_seconds)
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def jobs(stacked: Front, tmp_path: Path) -> Front:
    tool = program(tmp_path, "codex", "#!/bin/sh\necho codex-cli 0.171.0\n")
    stacked.environ |= {"DELEGATE_CODEX_BIN": str(tool), "CODEX_HOME": str(tmp_path / "codex-home")}
    return stacked


def submitted(front: Front, agent: str | None = "codex", task: str = "Do it") -> str:
    return front.service().submit(front.card(task, agent=agent)).id


def waited(
    front: Front, *ids: str, timeout: float | None = None, clock: Clock | None = None, **how: bool
) -> tuple[int, list[str]]:
    clock, lines = clock or Clock(), list[str]()
    waiter = Waiter(front.service(), lines.append, clock=clock, pause=clock.pause, **how)
    return waiter.wait(ids, timeout), lines


def test_jobs_of_every_kind_that_are_done_give_0_and_a_line_each(jobs: Front):
    job, other = submitted(jobs), submitted(jobs, agent=None)
    jobs.end(job, "no_change")
    jobs.end(other, "answered")
    code, lines = waited(jobs, job, other)
    assert code == 0
    assert [line.split()[:2] for line in lines] == [[job, "DONE"], [other, "DONE"]]


def test_a_refuted_delegation_or_a_job_that_failed_gives_1(jobs: Front):
    job, other = submitted(jobs), submitted(jobs, agent=None)
    jobs.end(job, "failed", failure_kind="quota", failure_message="plan limit")
    jobs.end(other, "verified")
    code, lines = waited(jobs, other, job)
    assert code == 1
    assert f"{job} FAILED failure_kind=quota outcome=failed plan limit" in lines[1]
    third = submitted(jobs, agent=None)
    jobs.end(third, "refuted")
    assert waited(jobs, third)[0] == 1


@pytest.mark.parametrize(("all_first", "before"), [(False, 1), (True, 0)])
def test_a_line_comes_as_each_ends_and_with_all_after_the_last(jobs: Front, all_first: bool, before: int):
    first, second = submitted(jobs), submitted(jobs)
    jobs.end(first, "no_change")
    lines: list[str] = []
    seen: list[int] = []

    def end_the_second() -> None:
        seen.append(len(lines))
        jobs.end(second, "no_change")

    clock = Clock(then=[end_the_second])
    waiter = Waiter(jobs.service(), lines.append, all_first=all_first, clock=clock, pause=clock.pause)
    assert waiter.wait([first, second]) == 0
    assert (seen, len(lines)) == ([before], 2)


def test_an_id_that_nobody_sees_gives_2_after_half_a_minute_and_an_earlier_timeout_3(jobs: Front):
    clock = Clock()
    assert waited(jobs, new_id("cx"), clock=clock)[0] == 2
    assert clock.now == pytest.approx(30, abs=1)
    assert waited(jobs, new_id("cx"), timeout=5)[0] == 3
    assert waited(jobs, submitted(jobs), new_id("cx"), timeout=60)[0] == 2


def test_a_damaged_record_is_told_as_lost_and_the_others_are_still_waited_for(jobs: Front):
    damaged, whole = submitted(jobs, agent=None), submitted(jobs, agent=None)
    jobs.end(damaged, "verified")
    jobs.end(whole, "verified")
    (jobs.records.folder(damaged) / "receipt.json").write_text("{torn")
    code, lines = waited(jobs, damaged, whole)
    assert code == 1
    assert [line.split()[:2] for line in lines] == [[damaged, "LOST"], [whole, "DONE"]]
    assert "receipt.json" in lines[0]


def test_a_mix_of_four_kinds_is_told_in_the_words_of_each(jobs: Front, tmp_path: Path):
    """Codex, Gemini, dsh and one of ours: done, unhappy, lost, accepted."""
    models = tmp_path / "models.json"
    models.write_text('["deepseek-v4-flash"]', encoding="utf-8")
    agy, launcher = (program(tmp_path, name, "#!/bin/sh\n") for name in ("agy", "dsh-herdr.sh"))
    jobs.environ |= {"DELEGATE_AGY_BIN": str(agy), "DELEGATE_GEMINI_ALLOW_DANGER": "1"}
    jobs.environ |= {"DELEGATE_DSH_LAUNCHER": str(launcher), "DELEGATE_DSH_MODELS_FILE": str(models)}
    codex, gemini, ours = submitted(jobs), submitted(jobs, agent="gemini"), submitted(jobs, agent=None)
    dsh = jobs.service().submit(jobs.card("Do it", agent="dsh", model="deepseek-v4-flash")).id
    jobs.end(codex, "no_change")
    jobs.end(gemini, "failed", failure_kind="confinement", failure_message="jail_git_config: core.pager")
    jobs.end(dsh, "failed", failure_kind="lost", failure_message="its process was gone")
    jobs.end(ours, "verified")
    code, lines = waited(jobs, codex, gemini, dsh, ours)
    assert (code, [each.split("-")[0] for each in (codex, gemini, dsh, ours)]) == (1, ["cx", "gm", "dsh", "dg"])
    assert [line.split()[1:3] for line in lines] == [
        ["DONE", "outcome=no_change"],
        ["FAILED", "failure_kind=jail_git_config"],
        ["LOST", "failure_kind=other"],
        ["DONE", "outcome=verified"],
    ]


def test_a_job_that_was_killed_says_so_and_gives_1(jobs: Front):
    job = submitted(jobs)
    keep_beginning(jobs.records.folder(job), datetime.now(UTC))
    jobs.end(job, "failed", failure_kind="lost", failure_message="its process was gone again")
    code, lines = waited(jobs, job)
    assert code == 1
    assert lines[0].startswith(f"{job} KILLED_ON_RESTART ")


def test_whether_somebody_works_on_it_is_asked_at_the_interval_of_the_settings(
    jobs: Front, monkeypatch: pytest.MonkeyPatch
):
    asked: list[float] = []
    clock = Clock()
    monkeypatch.setattr(Watch, "look", lambda _: asked.append(clock.now))
    jobs.environ["DELEGATE_WAIT_INTERVAL"] = "4"
    assert waited(jobs, submitted(jobs), timeout=13, clock=clock)[0] == 3
    assert asked == [0, 4, 8, 12]


def test_the_time_given_gives_3(jobs: Front):
    assert waited(jobs, submitted(jobs), timeout=3) == (3, [])


def test_a_job_that_nobody_works_on_is_lost_at_once(jobs: Front):
    job = submitted(jobs)
    (jobs.home / "stack" / "state.json").unlink()
    clock = Clock()
    code, lines = waited(jobs, job, clock=clock)
    assert (code, clock.now) == (1, 0)
    assert lines[0].startswith(f"{job} LOST")


def test_json_is_one_safe_object_per_line(jobs: Front):
    job = submitted(jobs, task="Do\x1b[31m it\u202e now\nand\tthen")
    jobs.end(job, "failed", failure_kind="process", failure_message="bad \u2028 things\x07" + "x" * 9_000)
    _, lines = waited(jobs, job, as_json=True)
    shown = json.loads(lines[0])
    assert (shown["status"], shown["failure_kind"]) == ("failed", "infra")
    assert shown["task"] == "Do [31m it now and then"
    assert len(shown["error"]) <= 4_000
    assert "\\u2028" not in lines[0]


def test_the_program_says_what_is_wrong_on_stderr(capsys: pytest.CaptureFixture[str]):
    assert delegate_wait.main(["--timeout", "soon", "cx-1"]) == 2
    assert delegate_wait.main([]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("delegate-wait: ")) == ("", 2)


def test_delegate_wait_with_all_prints_nothing_before_the_last_has_ended(jobs: Front, tmp_path: Path):
    first, second = submitted(jobs), submitted(jobs)
    jobs.end(first, "no_change")
    out, err = tmp_path / "out", tmp_path / "err"
    words = [sys.executable, "-m", "mcp_entry", "wait", "--all", "--json", first, second]
    with out.open("w") as stdout, err.open("w") as stderr:
        child = subprocess.Popen(
            words, cwd=jobs.repo, env={**jobs.environ, "PYTHONPATH": str(ROOT)}, stdout=stdout, stderr=stderr
        )
        jobs.records.write_status(second, Progress(step="agent", detail="at work"))
        until(lambda: "at work" in err.read_text(encoding="utf-8"))
        assert out.read_text(encoding="utf-8") == ""
        jobs.end(second, "no_change")
        assert child.wait(30) == 1
    assert [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()] == [first, second]
