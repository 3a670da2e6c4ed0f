"""Whoever listens to a command gets its bytes as they come."""

import os
import threading
from pathlib import Path

from delegation.process import Limit, run, shell
from tests.doubles.waiting import until


def test_a_listener_gets_each_stream_while_the_command_still_runs(tmp_path: Path):
    out, err = list[bytes](), list[bytes]()
    seen_early = threading.Event()

    def look() -> None:
        until(lambda: b"first" in b"".join(out), 20, "the first line came")
        seen_early.set()
        (tmp_path / "go").touch()

    thread = threading.Thread(target=look)
    thread.start()
    command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; echo wrong >&2"
    env = {"PATH": os.environ["PATH"]}
    done = run(shell(command), cwd=tmp_path, env=env, timeout_seconds=30, on_stdout=out.append, on_stderr=err.append)
    thread.join()
    assert seen_early.is_set()
    assert (b"".join(out), b"".join(err)) == (b"first\nsecond\n", b"wrong\n")
    assert done.stdout.text == "first\nsecond\n"


def test_a_listener_gets_all_of_it_where_little_is_kept(tmp_path: Path):
    out = list[bytes]()
    env = {"PATH": os.environ["PATH"]}
    few = Limit(head=10, tail=10)
    done = run(
        shell("yes | head -c 500000"), cwd=tmp_path, env=env, timeout_seconds=30, stdout_limit=few, on_stdout=out.append
    )
    assert sum(map(len, out)) == 500_000
    assert done.stdout.truncated
