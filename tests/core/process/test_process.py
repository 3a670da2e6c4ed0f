"""One command: its end, its output, its limits."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from delegation.errors import UsageError, WorkFailed
from delegation.process import Limit, run, shell


def test_output_and_exit_code_are_told_apart_by_stream(any_place):
    done = any_place.run("echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.signal, done.stdout.text, done.stderr.text) == (3, None, "out\n", "err\n")
    assert (done.timed_out, done.cancelled, done.disk_full, done.killed_processes) == (False, False, False, 0)


def test_merged_output_keeps_the_order(any_place):
    done = any_place.run("echo a; echo b >&2; echo c", merge_stderr=True)
    assert done.stdout.text == "a\nb\nc\n"
    assert done.stderr.text == ""


def test_the_command_starts_in_its_folder_with_its_environment(any_place):
    done = any_place.run('pwd; echo "$HOME"; touch here')
    assert done.stdout.text.splitlines() == [str(any_place.tree), str(any_place.root / "home")]
    assert (any_place.tree / "here").exists()


@pytest.mark.parametrize("command", ["cat", "grep x", "read -p 'Sure? ' a", "python3 -"])
def test_a_command_that_reads_gets_the_end_of_input_at_once(any_place, command):
    assert any_place.run(command, timeout_seconds=10).seconds < 5


def test_there_is_no_terminal_to_ask(any_place):
    done = any_place.run("read a </dev/tty")
    assert done.exit_code == 1
    assert done.seconds < 5


def test_given_input_of_any_size_arrives_whole(any_place):
    data = b"x" * 5_000_000
    done = any_place.run(["wc", "-c"], stdin=data)
    assert done.stdout.text.strip() == str(len(data))


def test_a_child_does_not_eat_the_callers_own_input(place):
    script = (
        "import sys; from pathlib import Path; from delegation.process import run, shell\n"
        f"run(shell('cat; head -1'), cwd=Path({str(place.tree)!r}), env={place.env!r}, timeout_seconds=10)\n"
        "print(sys.stdin.readline())"
    )
    done = subprocess.run([sys.executable, "-c", script], input=b"the request\n", capture_output=True, timeout=30)
    assert done.stdout.strip() == b"the request"


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("kill -9 $$", signal.SIGKILL),
        ("exec python3 -c 'import os; os.kill(os.getpid(), 11)'", signal.SIGSEGV),
        ("sh -c 'kill -9 $$'; exit $?", signal.SIGKILL),
    ],
)
def test_death_by_a_signal_is_named_and_is_no_ordinary_failure(any_place, command, number):
    done = any_place.run(command)
    assert (done.signal, done.exit_code, done.signal_name) == (number, 128 + number, number.name)
    assert not done.timed_out


@pytest.mark.parametrize("code", [0, 1, 2, 127, 255])
def test_exit_codes_that_are_no_signals_stay_exit_codes(any_place, code):
    done = any_place.run(f"exit {code}")
    assert (done.exit_code, done.signal) == (code, None)


def test_timeout_is_told_apart_from_a_signal(any_place):
    done = any_place.run("echo before; sleep 60", timeout_seconds=0.5)
    assert (done.timed_out, done.cancelled, done.exit_code, done.signal) == (True, False, None, None)
    assert done.stdout.text == "before\n"
    assert done.seconds < 4


def test_a_program_may_clean_up_when_it_is_told_to_end(any_place, until):
    for _ in range(10):  # a child told before its parent would let the shell run out before its trap, not every time
        (any_place.tree / "ready").unlink(missing_ok=True)
        done = _cancelled_when_ready(any_place, until, "trap 'echo bye; exit' TERM; touch ready; sleep 60 & wait")
        assert done.stdout.text == "bye\n"


def _cancelled_when_ready(place, until, command: str):
    cancelled = threading.Event()
    watcher = threading.Thread(target=lambda: until((place.tree / "ready").exists, 10) and cancelled.set())
    watcher.start()
    done = place.run(command, cancelled=cancelled)
    watcher.join()
    return done


def test_cancelling_ends_the_command_within_a_moment(any_place):
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    done = any_place.run("sleep 60", cancelled=cancelled)
    assert (done.cancelled, done.timed_out, done.exit_code) == (True, False, None)
    assert done.seconds < 1.5


def test_a_flood_stays_within_memory_and_keeps_both_ends(any_place):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = any_place.run(
        "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last", stdout_limit=Limit(head=50, tail=50)
    )
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 * 1024
    assert done.stdout.text.startswith("first\n")
    assert done.stdout.text.endswith("last\n")
    assert done.stdout.truncated
    assert done.stdout.total_bytes == 100_000_000 + len("first\n\nlast\n")
    assert "[... 99,999,912 characters left out ...]" in done.stdout.text


def test_an_endless_flood_ends_with_its_time(any_place):
    done = any_place.run("yes", timeout_seconds=0.5)
    assert done.timed_out
    assert done.stdout.truncated
    assert any_place.processes() == []


def test_the_log_holds_the_raw_bytes(any_place):
    log = any_place.root / "run.log"
    any_place.run("printf 'a\\033[31mb\\xff'; echo err >&2", log=log)
    assert sorted(log.read_bytes()) == sorted(b"a\x1b[31mb\xfferr\n")
    assert log.stat().st_mode & 0o777 == 0o600


def test_no_file_grows_beyond_its_bound(any_place):
    done = any_place.run("exec yes > big", file_bytes=1024 * 1024)
    assert done.signal == signal.SIGXFSZ
    assert (any_place.tree / "big").stat().st_size == 1024 * 1024


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="mounting a small disk needs root")
def test_a_command_that_fills_the_disk_is_ended_before_others_lose_their_state(any_place):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(any_place.tree)], check=True)
    try:
        done = any_place.run("head -c 8200000 /dev/zero > fill; sleep 60")
        assert (done.disk_full, done.exit_code) == (True, None)
        assert done.seconds < 5
    finally:
        subprocess.run(["umount", str(any_place.tree)], check=True)


def test_a_command_that_removes_its_own_folder_still_ends_in_order(place):
    done = place.run('rm -rf "$PWD"; sleep 0.8; echo done')
    assert (done.exit_code, done.stdout.text) == (0, "done\n")


def test_a_command_cannot_break_us_by_forging_the_report(any_place):
    done = any_place.run(
        # only itself and the two processes above it: as root, other processes' files would be written to
        "for p in self $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do"
        " for n in 100 101 102; do echo 'ended x' > /proc/$p/fd/$n; done; done; exit 5"
    )
    assert done.exit_code == 5


def test_an_argument_no_system_takes_is_a_failure(place):
    with pytest.raises(WorkFailed, match="cannot run"):
        place.run(["echo", "a\0b"])


def test_a_missing_program_is_a_failure_that_names_it(any_place):
    with pytest.raises(WorkFailed, match="no such program") as caught:
        any_place.run(["no-such-program"])
    assert caught.value.kind == "process"


def test_a_program_the_kernel_refuses_is_a_failure(place):
    program = place.tree / "broken"
    program.write_bytes(b"\x7fELF garbage")
    program.chmod(0o755)
    with pytest.raises(WorkFailed, match=r"cannot run '\./broken'") as caught:
        place.run(["./broken"])
    assert caught.value.kind == "process"


def test_a_missing_folder_is_a_failure_that_names_it(place):
    with pytest.raises(WorkFailed, match="does not exist"):
        run(shell("true"), cwd=place.tree / "nowhere", env=place.env, timeout_seconds=5)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused_before_anything_runs(place, timeout):
    with pytest.raises(UsageError, match="timeout_seconds"):
        place.run("touch ran", timeout_seconds=timeout)
    assert not (place.tree / "ran").exists()


def test_commands_side_by_side_do_not_end_each_other(place):
    results: dict[int, str] = {}

    def one(number: int) -> None:
        results[number] = place.run(f"sleep 0.{number}; echo {number}").stdout.text

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(6)}


def test_no_descriptor_and_no_thread_is_left(any_place):
    any_place.run("true")
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        any_place.run("sleep 100 & echo x; echo y >&2")
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_the_command_holds_no_descriptor_of_ours(any_place):
    done = any_place.run(["ls", "/proc/self/fd"])
    assert done.stdout.text.split() == ["0", "1", "2", "3"]  # the last is the listing itself


@pytest.mark.parametrize("command", ["git log", "git commit --allow-empty", "git rebase -i HEAD~3", "man ls"])
def test_pagers_and_editors_do_not_wait_for_anybody(place, command):
    make = "git init -q . && for i in 1 2 3 4 5 6; do git commit -q --allow-empty -m c$i; done"
    assert place.run(make).exit_code == 0
    started = time.monotonic()
    done = place.run(f"git config core.pager 'less -+F'; git config core.editor vi; {command}")
    assert not done.timed_out
    assert time.monotonic() - started < 10


def test_shell_runs_a_line(tmp_path: Path):
    assert shell("echo x")[1:] == ("-c", "echo x")
