"""`delegate-wait` where things are not as they should be: no output to write to, odd times, ids by the hundred."""

import subprocess
import sys
import time
from collections.abc import Sequence

import pytest
from front import ROOT, Front

from delegation.ids import new_id
from mcp_entry.terminal import delegate_wait
from mcp_entry.terminal.delegate_wait import Waiter


def ended(front: Front, outcome: str = "verified", number: int = 1) -> str:
    job = front.keep(number=number)
    front.end(job, outcome)
    return job


def waiting(front: Front, *words: str, shell: str = '"$@"') -> subprocess.CompletedProcess[str]:
    """The program of its own, started by a line of shell."""
    argv = ["sh", "-c", shell, "sh", sys.executable, "-m", "mcp_entry.terminal.delegate_wait", *words]
    env = {**front.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, cwd=front.repo, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("outcome", "code"), [("verified", 0), ("refuted", 1)])
@pytest.mark.parametrize(
    "shell", ['"$@" >&-', '"$@" >/dev/full', '{ "$@"; echo $? >&2; } | true'], ids=["closed", "full", "unread"]
)
def test_where_nobody_can_read_the_exit_code_still_tells(front: Front, outcome: str, code: int, shell: str):
    done = waiting(front, ended(front, outcome), shell=shell)
    assert "Traceback" not in done.stderr
    told = int(done.stderr.splitlines()[-1]) if "echo" in shell else done.returncode
    assert told == code


def test_no_time_at_all_is_one_look(front: Front):
    done, open_one = ended(front), front.keep(number=2)
    assert waiting(front, "--timeout", "0", done).returncode == 0
    more = waiting(front, "--timeout", "0", open_one, done)
    assert (more.returncode in (1, 3), more.stdout.splitlines()[-1].split()[:2]) == (True, [done, "DONE"])
    assert waiting(front, "--timeout", "0", new_id("cx")).returncode == 3


@pytest.mark.parametrize("text", ["nan", "-1", "-inf", "soon"])
def test_a_time_that_is_none_is_refused_at_once(front: Front, text: str):
    begun = time.monotonic()
    done = waiting(front, "--timeout", text, ended(front))
    assert (done.returncode, done.stdout) == (2, "")
    assert "timeout" in done.stderr
    assert time.monotonic() - begun < 10


def test_an_unknown_id_among_known_ones_gives_2_and_the_known_are_told(
    front: Front, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(delegate_wait, "UNSEEN_SECONDS", 0.0)
    known, unknown, lines = ended(front), new_id("dsh"), list[str]()
    code = Waiter(front.service(), lines.append).wait([known, unknown, "no\x1b[31mthing"])
    assert (code, [line.split()[:2] for line in lines]) == (2, [[known, "DONE"]])
    told = capsys.readouterr().err
    assert told.startswith(f"delegate-wait: not seen: {unknown}, no [31mthing: ")
    assert told.endswith(f"no such id in {front.records.home.delegations}; `delegate list` shows those there are\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize("text", ["nope", "fix the parser", "cmp-20261130t113652417-k7x2", "q"])
def test_what_cannot_be_an_id_is_refused_at_once_and_the_ended_are_told(
    front: Front, text: str, capsys: pytest.CaptureFixture[str]
):
    known, lines = ended(front), list[str]()

    def pause(_: Sequence[str], __: float | None) -> None:
        raise AssertionError("nothing of that name can ever come")

    assert Waiter(front.service(), lines.append, pause=pause).wait([known, text]) == 2
    assert [line.split()[:2] for line in lines] == [[known, "DONE"]]
    assert f"not seen: {text}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "cut", [slice(None), slice(0, 2), slice(0, 11), slice(0, -2), slice(-4, None), slice(-15, None)]
)
def test_what_may_still_become_an_id_is_waited_for(front: Front, cut: slice):
    class Waited(Exception): ...

    def pause(_: Sequence[str], __: float | None) -> None:
        raise Waited

    with pytest.raises(Waited):
        Waiter(front.service(), [].append, pause=pause).wait([new_id("cx")[cut]])


def kept(front: Front, how_many: int) -> list[str]:
    """Records of work that goes on, all of one request."""
    request, ids = front.records.request(front.keep()), [new_id("dg") for _ in range(how_many)]
    for number, each in enumerate(ids, 2):
        front.records.create(request.model_copy(update={"id": each}), number)
    return ids


def test_two_hundred_ids_are_told_in_moments_and_each_once(front: Front):
    ids, lines, begun = kept(front, 200), list[str](), time.monotonic()
    for each in ids:
        front.end(each, "verified")

    def pause(_: Sequence[str], __: float | None) -> None:
        raise AssertionError("all have ended")

    assert Waiter(front.service(), lines.append, pause=pause).wait([*ids, *ids[:50]]) == 0
    assert time.monotonic() - begun < 15
    assert [line.split()[0] for line in lines] == ids


def test_two_hundred_that_are_at_work_cost_a_look_each_and_end_with_the_time(stacked: Front):
    ids, lines = kept(stacked, 200), list[str]()
    assert Waiter(stacked.service(), lines.append, pause=lambda _, __: time.sleep(0.01)).wait(ids, 0.5) == 3
    assert lines == []
