"""Where a task is read from: whole and bounded, and never from something that does not end."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from delegation.errors import NotFoundError, UsageError
from mcp_entry.terminal.card_input import CardOptions, TaskSource, card_of, text_of_source, words_of

MIB = 1024 * 1024


def test_a_task_file_of_the_largest_size_is_read_whole(tmp_path: Path):
    (tmp_path / "task").write_text("x" * 16 * MIB)
    assert len(text_of_source(str(tmp_path / "task"))) == 16 * MIB


def test_a_larger_one_is_refused_with_the_limit(tmp_path: Path):
    with (tmp_path / "task").open("wb") as file:
        file.truncate(100 * 1024 * MIB)  # no bytes on disk, but no end in sight for who reads
    with pytest.raises(UsageError, match=r"task' is longer than 16 MiB, which is the limit"):
        text_of_source(str(tmp_path / "task"))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused(device: str):
    with pytest.raises(UsageError, match=f"'{device}': it is a device; name a regular file, or pipe the text to stdin"):
        words_of(None, device, "task")


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="it is a named pipe"):
        text_of_source(str(tmp_path / "fifo"))
    with pytest.raises(UsageError, match="it is a named pipe"):
        card_of(CardOptions(), TaskSource(None, None, tmp_path / "fifo"))


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="it is a folder"):
        text_of_source(str(tmp_path))


def test_a_missing_file_is_not_found(tmp_path: Path):
    with pytest.raises(NotFoundError, match="no file"):
        text_of_source(str(tmp_path / "nosuch"))


def test_a_pipe_that_the_shell_opened_is_read_to_its_end():
    reading, writing = os.pipe()
    text = "Fix ünïts\n" * 50_000
    writer = threading.Thread(target=_write, args=(writing, text.encode()))
    writer.start()
    assert text_of_source(f"/dev/fd/{reading}") == text
    writer.join()
    os.close(reading)


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def test_process_substitution_of_the_shell_works_within_the_bound():
    script = "import sys; from mcp_entry.terminal.card_input import text_of_source as t; print(len(t(sys.argv[1])))"
    run = f"{sys.executable} -c '{script}'"
    small = subprocess.run(["bash", "-c", f"{run} <(sleep 0.2; echo task)"], capture_output=True, text=True, timeout=30)
    assert small.stdout == "5\n", small.stderr
    endless = subprocess.run(["bash", "-c", f"{run} <(yes)"], capture_output=True, text=True, timeout=30)
    assert "is longer than 16 MiB, which is the limit" in endless.stderr


def test_a_file_that_is_not_text_is_refused(tmp_path: Path):
    (tmp_path / "task").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8"):
        text_of_source(str(tmp_path / "task"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "---\nrepo: .\n---\nFix it.\n"),
        ("a.yaml", "task: Fix it\n"),
        ("a.json", '{"task": "x", "id": "a"}'),
        ("a.toml", 'task = "x"\npriority = 3\n'),
        ("a.json", '{"prompt": "x"}'),
    ],
)
def test_a_card_of_a_night_is_sent_there(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"such cards run with `delegate night FILE`"):
        card_of(CardOptions(), TaskSource(None, None, tmp_path / name))
