"""References in an answer are looked up in what was packed."""

import pytest

from delegation.reading.citations import checked
from delegation.reading.packing.manifest import Manifest, PackedFile, Skip

FILES = {
    "src/app.py": 40,
    "src/util/io.py": 10,
    "lib/io.py": 5,
    "README.md": 3,
    "odd name (1).py": 7,
    '"n\\nl.py"': 2,
    "Makefile": 9,
}
MANIFEST = Manifest(
    files=tuple(PackedFile(path=path, size=1, lines=lines, tokens=1, sha256="0") for path, lines in FILES.items()),
    skipped=(Skip(path="big.bin", reason="binary"), Skip(path=".env", reason="excluded")),
    sha256="0",
    fence="[0]",
    tokens=1,
)


@pytest.mark.parametrize(
    ("answer", "path", "lines"),
    [
        ("see src/app.py:3-9.", "src/app.py", (3, 9)),
        ("see `src/app.py:40`", "src/app.py", (40, 40)),
        ("(src/app.py:L3-L9)", "src/app.py", (3, 9)),
        ("[app](src/app.py#L3-L9)", "src/app.py", (3, 9)),
        ("**src/app.py:3–9**", "src/app.py", (3, 9)),
        ("./src/app.py:1", "src/app.py", (1, 1)),
        ("app.py:12-13", "src/app.py", (12, 13)),
        ("util/io.py:10", "src/util/io.py", (10, 10)),
        ("odd name (1).py:2-7", "odd name (1).py", (2, 7)),
        ('"n\\nl.py":1-2', '"n\\nl.py"', (1, 2)),
        ("Makefile:9", "Makefile", (9, 9)),
        ("- README.md:1-3: the start", "README.md", (1, 3)),
    ],
)
def test_a_right_reference_is_found_and_left_alone(answer, path, lines):
    result = checked(answer, MANIFEST)
    assert [(each.path, (each.start, each.end), each.verdict) for each in result.citations] == [(path, lines, "ok")]
    assert (result.text, result.wrong) == (answer, ())


@pytest.mark.parametrize(
    ("answer", "marked", "verdict"),
    [
        ("see src/app.py:39-41.", "see src/app.py:39-41 [wrong reference: the file has 40 lines].", "no_such_lines"),
        ("src/app.py:0", "src/app.py:0 [wrong reference: the file has 40 lines]", "no_such_lines"),
        ("src/app.py:9-3", "src/app.py:9-3 [wrong reference: the file has 40 lines]", "no_such_lines"),
        ("`src/gone.py:3`", "`src/gone.py:3 [wrong reference: no such file was read]`", "no_such_file"),
        ("gone.py:3-4", "gone.py:3-4 [wrong reference: no such file was read]", "no_such_file"),
        ("io.py:3", "io.py:3 [wrong reference: no such file was read]", "no_such_file"),
        ("big.bin:1-2", "big.bin:1-2 [wrong reference: this file was left out (binary)]", "no_such_file"),
    ],
)
def test_a_wrong_reference_is_marked(answer, marked, verdict):
    result = checked(answer, MANIFEST)
    assert result.text == marked
    assert [each.verdict for each in result.wrong] == [verdict]


@pytest.mark.parametrize(
    "answer",
    [
        "it is 12:30", "http://localhost:8080/x", "example.org:443", "ratio 3:4", "use port :8000", "1.2.3.4:80",
        "https://host.py:80", "std::vector:3", "Note:3", "version 1.5:2", "", "a" * 10_000 + ":1",
    ],
)  # fmt: skip
def test_what_is_no_reference_is_left_alone(answer):
    assert checked(answer, MANIFEST) == checked("", MANIFEST) or checked(answer, MANIFEST).text == answer
    assert checked(answer, MANIFEST).citations == ()


def test_several_references_keep_their_order_and_the_text_around_them():
    answer = "First src/app.py:1-2, then lib/io.py:6 and lib/io.py:5; also nope.py:1-2!"
    result = checked(answer, MANIFEST)
    assert [each.verdict for each in result.citations] == ["ok", "no_such_lines", "ok", "no_such_file"]
    assert result.text.replace(" [wrong reference: the file has 5 lines]", "").replace(
        " [wrong reference: no such file was read]", ""
    ) == answer  # fmt: skip


def test_a_long_answer_is_checked_quickly():
    import time

    begun = time.process_time()
    checked("see src/app.py:1-2 and x:1 " * 5_000, MANIFEST)
    assert time.process_time() - begun < 3
