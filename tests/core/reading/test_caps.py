"""Caps per file and in total, and what each file looks like when it meets one."""

import os
import tracemalloc

import pytest

from delegation.reading.packing.limits import FileWalker
from delegation.reading.packing.pack import pack
from delegation.reading.packing.rendering import estimated_tokens, line_count, numbered, rendered
from delegation.reading.packing.tree import Tree


def test_a_file_above_its_cap_is_cut_and_says_so(write):
    root = write({"big.txt": "line\n" * 100, "small.txt": "x\n"})
    packed = pack(root, FileWalker(max_file_bytes=52))
    big, small = packed.manifest.files
    assert (big.truncated, big.lines, big.size, small.truncated) == (True, 11, 500, False)
    assert packed.texts[0] == "line\n" * 10 + "li"
    assert "11\tli\n[truncated: the first 11 lines of a file of 500 bytes]\n" in rendered(packed)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_a_cut_never_splits_a_character(write, encoding):
    root = write({"a.txt": ("ü€😀" * 50).encode(encoding)})
    for cap in range(20, 40):
        text = pack(root, FileWalker(max_file_bytes=cap)).texts[0]
        assert ("ü€😀" * 50).startswith(text)
        assert len(text) >= 5


def test_a_file_that_is_written_to_meanwhile_stays_within_the_caps_and_has_the_size_that_was_read(write, monkeypatch):
    root = write({"a.txt": "a" * 40, "b.txt": "b", "c.txt": "c" * 30})
    real = Tree.read

    def read(tree: Tree, path: bytes, at_most: int) -> bytes:
        written = {b"a.txt": "a" * 4, b"b.txt": "b" * 90}.get(path)
        if written:
            (root / os.fsdecode(path)).write_text(written)
        return real(tree, path, at_most)

    monkeypatch.setattr(Tree, "read", read)
    packed = pack(root, FileWalker(max_total_bytes=80))
    assert [(file.path, file.size) for file in packed.manifest.files] == [("a.txt", 4), ("c.txt", 30)]
    assert [(skip.path, skip.reason, skip.size) for skip in packed.manifest.skipped] == [("b.txt", "total-cap-hit", 90)]


def test_smaller_files_are_packed_after_one_that_did_not_fit(write, paths, reasons):
    root = write(
        {"a.txt": "a" * 60, "b.txt": "b" * 60, "c.txt": "c" * 30, "d.txt": "d" * 11, "e.txt": "e" * 10, "z": ""}
    )
    packed = pack(root, FileWalker(max_total_bytes=100))
    assert paths(packed) == ["a.txt", "c.txt", "e.txt", "z"]
    assert reasons(packed) == {"b.txt": "total-cap-hit", "d.txt": "total-cap-hit"}
    assert packed.manifest.skipped[0].size == 60


def test_a_tiny_file_is_packed_after_four_million_bytes(write, paths):
    root = write({f"{number:02}.txt": "x" * 262_144 for number in range(16)} | {"z.txt": "hello"})
    packed = pack(root, FileWalker())
    assert len(paths(packed)) == 16
    root = write({f"{number:02}.txt": "x" * 262_000 for number in range(17)})
    packed = pack(root)
    assert paths(packed)[-1] == "z.txt"
    assert len(packed.manifest.skipped) == 1


def test_a_cap_beyond_all_memory_is_no_cap(write):
    root = write({"a.txt": "line\n" * 500_000, "b.txt": "b"})
    packed = pack(root, FileWalker(max_file_bytes=1 << 60, max_total_bytes=1 << 60))
    assert [(file.lines, file.truncated) for file in packed.manifest.files] == [(500_000, False), (1, False)]


def test_memory_stays_within_a_few_times_the_total_cap(write):
    root = write({f"{number}.txt": b"some words\n" * 20_000 for number in range(60)})
    tracemalloc.start()
    try:
        pack(root, FileWalker(max_total_bytes=1_000_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (bytes(range(256)), None),
        (b"\x7fELF\x01\x00", None),
        (b"text\x01\x02\x03\x04", None),
        (b"x" * 5000 + b"\0", None),
        ("Привет, мир\n".encode(), "Привет, мир\n"),
        ("日本語\n".encode(), "日本語\n"),
        (b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
        ("// Größe der Fläche über alles\n".encode("cp1252"), "// Größe der Fläche über alles\n"),
        ("# Это комментарий к программе\nx = 1\n".encode("cp1251"), "# Это комментарий к программе\nx = 1\n"),
        ("日本語のコメントです\n".encode("shift_jis"), "日本語のコメントです\n"),
    ],
)
def test_what_is_text_is_read_and_what_is_none_is_listed(write, reasons, content, text):
    packed = pack(write({"f": content}))
    assert packed.texts == (() if text is None else (text,))
    assert reasons(packed) == ({"f": "binary"} if text is None else {})


def test_lines_are_counted_as_editors_count_them():
    text = "one\r\ntwo\x0bthree\u2028four\n\nlast"
    assert line_count(text) == 4
    assert numbered(text) == "1\tone\r\n2\ttwo\x0bthree\u2028four\n3\t\n4\tlast\n"
    assert numbered("") == ""


def test_the_estimate_covers_the_text_that_is_sent(write):
    packed = pack(write({f"src/{number}.py": "value = compute(1)\n" * number for number in range(1, 60)}))
    assert packed.manifest.tokens >= estimated_tokens(rendered(packed)) * 0.9
    assert packed.manifest.tokens <= estimated_tokens(rendered(packed)) * 1.5
