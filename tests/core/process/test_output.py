"""Captured text is safe for a model, a request body and a terminal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegation.processes.output import Limit, Log, Tap, safe_text

WIDE = Limit(head=1_000_000, tail=1_000_000)


def captured(data: bytes, limit: Limit = WIDE, step: int = 10**9):
    tap = Tap(limit)
    for start in range(0, len(data), step):
        tap.feed(data[start : start + step])
    return tap.captured()


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        ("日本語\n".encode(), "日本語\n"),
        (b"\xf0", "\ufffd"),
        (b"a\xff\xfeb", "a\ufffd\ufffdb"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"a\0b", "a\\0b"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b[2J\x1b[Hclear", "clear"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]0;title\x1b\\after", "after"),
        (b"\x1b]0;never closed\nnext", "\nnext"),
        (b"\x1bPdevice\x1b\\x", "x"),
        (b"\x1b(Bx\x1b=y\x1b", "xy"),
        ("\x9b31mred\x9d0;t\x9cx".encode(), "redx"),
        (b"bell\x07\x0e\x0f", "bell"),
        (b"dos\r\nline\r\n", "dos\nline\n"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"10%\r50%\r", "50%"),
        (b"a\x08ab\x08bc\x08c", "abc"),
    ],
)
def test_what_is_not_text_is_made_harmless(raw, safe):
    assert captured(raw).text == safe
    assert captured(raw, step=1).text == safe


@given(
    st.lists(
        st.sampled_from(
            [b"\r", b"\n", b"\x1b", b"[", b"3", b"m", b"]", b"\x07", b"a", b"b", b"\x08", b"\0", "é".encode()]
        )
        | st.binary(max_size=3)
    ).map(b"".join),
    st.integers(min_value=1, max_value=7),
)
def test_pieces_give_the_same_text_as_the_whole(data, step):
    whole = captured(data)
    assert captured(data, step=step) == whole
    assert whole.total_bytes == len(data)


@given(st.text(st.characters(), max_size=200))
def test_safe_text_always_fits_a_request_body(text):
    safe = safe_text(text)
    assert json.dumps(safe, ensure_ascii=False).encode("utf-8")
    assert not set(safe) & set(map(chr, [*range(9), 11, *range(13, 32), *range(127, 160)]))
    assert safe_text(safe) == safe


def test_a_lone_surrogate_is_replaced():
    assert safe_text("a\ud800b") == "a\ufffdb"
    assert safe_text("\ud83d\ude42") == "🙂"


def test_the_middle_is_cut_between_characters_and_the_cut_is_counted():
    data = ("é" * 1000).encode()
    result = captured(data, Limit(head=3, tail=4), step=7)
    assert result.text == "ééé\n[... 993 characters left out ...]\néééé"
    assert (result.truncated, result.total_bytes) == (True, 2000)


def test_text_that_just_fits_is_whole():
    assert captured(b"1234567", Limit(head=3, tail=4)).text == "1234567"
    assert not captured(b"1234567", Limit(head=3, tail=4)).truncated
    assert captured(b"12345678", Limit(head=3, tail=0)).text == "123\n[... 5 characters left out ...]\n"


def test_a_progress_bar_costs_one_line():
    data = b"".join(b"\r%d/10000" % number for number in range(1, 10_001)) + b"\ndone\n"
    result = captured(data, Limit(head=100, tail=100), step=4096)
    assert result.text == "10000/10000\ndone\n"
    assert not result.truncated


def test_a_line_without_end_is_not_held_in_memory():
    tap = Tap(Limit(head=10, tail=10))
    for _ in range(100):
        tap.feed(b"x" * 65_536)
    assert len(tap._held) <= 65_536
    assert tap.captured().text.count("x") == 20


def test_the_log_keeps_its_start_and_its_end(tmp_path: Path):
    log = Log(tmp_path / "log", limit_bytes=10, tail_bytes=6)
    for number in range(50):
        log.write(b"%02d\n" % number)
    log.close()
    assert (tmp_path / "log").read_bytes() == b"00\n01\n02\n0\n[... 134 bytes left out ...]\n48\n49\n"


def test_a_log_within_its_bound_is_exact(tmp_path: Path):
    log = Log(tmp_path / "log", limit_bytes=10, tail_bytes=6)
    log.write(b"0123456789")
    log.write(b"abc")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"0123456789abc"


def test_a_log_on_a_full_disk_ends_quietly():
    log = Log(Path("/dev/full"), limit_bytes=10)
    log.write(b"0123")
    log.write(b"4567")
    log.close()
