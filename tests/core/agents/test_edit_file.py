"""edit_file changes the bytes it was asked to change and no others."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.toolbox import Toolbox
from delegation.chat.messages import ToolUse

Call = Callable[..., ToolAnswer]


@pytest.fixture
def edit(root: Path, call: Call) -> Callable[..., tuple[bytes, ToolAnswer]]:
    def edited(data: bytes, old: str, new: str, **more: object) -> tuple[bytes, ToolAnswer]:
        (root / "f").write_bytes(data)
        answer = call("edit_file", path="f", old_text=old, new_text=new, **more)
        return (root / "f").read_bytes(), answer

    return edited


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (
            b"x = 1\r\ny = 2\r\nz = 3\r\n",
            "x = 1\ny = 2",
            "x = 1\ny = 9\nw = 0",
            b"x = 1\r\ny = 9\r\nw = 0\r\nz = 3\r\n",
        ),
        (b"progress 1\rprogress 2\rdone\nword\n", "word", "WORD", b"progress 1\rprogress 2\rdone\nWORD\n"),
        (b"a\r\nb\nc\r\nb\n", "c", "C\nD", b"a\r\nb\nC\r\nD\r\nb\n"),
        (b"a\nb\nc\n", "a\r\nb", "a\r\nB", b"a\nB\nc\n"),
        (b"a\r\nb\nc\n", "a\nb\nc", "A\nb\nC", b"A\r\nb\nC\n"),
        (b"a\nlast", "last", "last\nmore", b"a\nlast\nmore"),
        (b"one", "one", "one\ntwo", b"one\ntwo"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1", "x = 2", b"\xef\xbb\xbfx = 2\n"),
        ("\ufeffü=1\r\n".encode("utf-16-le"), "ü=1", "ü=2", "\ufeffü=2\r\n".encode("utf-16-le")),
        (
            "Grüße, Jürgen und die Söhne\n".encode("latin-1"),
            "Söhne",
            "Töchter",
            "Grüße, Jürgen und die Töchter\n".encode("latin-1"),
        ),
        (b"re.sub(r'\\1', '$&')\n", "r'\\1'", "r'\\2\\g<0>'", b"re.sub(r'\\2\\g<0>', '$&')\n"),
    ],
)
def test_only_the_matched_bytes_change(edit, before: bytes, old: str, new: str, after: bytes):
    data, answer = edit(before, old, new)
    assert answer.changed
    assert "1 replacement" in answer.text
    assert data == after


@pytest.mark.parametrize(
    ("before", "old", "new", "words"),
    [
        (b"x=1\nx=1\nx=1\n", "x=1", "x=2", ["3 times", "lines 1, 2, 3", "replace_all"]),
        (b"a\nb\n--\na\r\nb\r\n", "a\nb", "z", ["2 times", "lines 1, 4"]),
        (b"text\n", "", "Z", ["empty", "write_file"]),
        (b"text\n", "text", "text", ["same"]),
        (b"ab", "ab and much more than the file has", "x", ["not found"]),
        (b"def f():\n    return 1\n", "def f():\n  return 1", "x", ["other spaces", "line 1"]),
        (b"def f():\n    return 1\n", "def f():\n    return 2", "x", ["first line 'def f():'", "line 1", "differs"]),
        (b"def f():\n    return 1\n", "     1\tdef f():", "x", ["line numbers"]),
        (b"x\n", "nowhere", "y", ["Not even"]),
        (b"a\r\nb\r\n", "a\r\nb", "a\nb", ["line endings", "run_bash"]),
    ],
)
def test_what_cannot_be_done_is_explained_and_changes_nothing(
    edit, before: bytes, old: str, new: str, words: list[str]
):
    data, answer = edit(before, old, new)
    assert (answer.is_error, answer.changed) == (True, False)
    assert [word for word in words if word not in answer.text] == []
    assert data == before


def test_replace_all_counts_and_ends_when_the_new_text_contains_the_old(edit):
    data, answer = edit(b"x x\nx\n", "x", "xx", replace_all=True)
    assert data == b"xx xx\nxx\n"
    assert "3 replacements, at lines 1, 1, 2" in answer.text


def test_spaces_alone_can_be_replaced_everywhere(edit):
    assert edit(b"  a  b\n", "  ", "\t", replace_all=True)[0] == b"\ta\tb\n"


def test_a_character_the_encoding_lacks_is_refused(edit):
    before = "Grüße, Jürgen und die Söhne, Größe, Fälle\n".encode("latin-1")
    data, answer = edit(before, "Söhne", "日本")
    assert answer.is_error
    assert data == before


def test_a_missing_file_lists_what_is_there(root: Path, call: Call):
    (root / "other.py").touch()
    answer = call("edit_file", path="f.py", old_text="a", new_text="b")
    assert answer.is_error
    assert "other.py" in answer.text
    assert not (root / "f.py").exists()


def test_a_binary_file_is_not_edited(root: Path, call: Call):
    (root / "f").write_bytes(b"a\0b")
    assert call("edit_file", path="f", old_text="a", new_text="b").is_error
    assert (root / "f").read_bytes() == b"a\0b"


endings = st.sampled_from([b"\n", b"\r\n"])
lines = st.lists(
    st.tuples(st.sampled_from([b"alpha", b"beta", b"", b"  gamma", b"\xc3\xa9t\xc3\xa9"]), endings), max_size=8
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=lines, after=lines)
def test_everything_around_the_passage_stays_byte_for_byte(tmp_path: Path, before, after):
    head, tail = (b"".join(text + ending for text, ending in part) for part in (before, after))
    (tmp_path / "f").write_bytes(head + b"UNIQUE" + tail)
    use = ToolUse("id", "edit_file", {"path": "f", "old_text": "UNIQUE", "new_text": "one"})
    assert Toolbox(tmp_path, None).call(use, 60).changed
    assert (tmp_path / "f").read_bytes() == head + b"one" + tail
