"""read_file, write_file, list_files and search_files: what a model sees, and what it is told when that cannot be."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from delegation.agents.tools.answer import ToolAnswer
from delegation.agents.tools.toolbox import TOOL_NAMES, Toolbox
from delegation.chat.messages import ToolUse

Call = Callable[..., ToolAnswer]


def numbered(first: int, last: int) -> str:
    return "".join(f"{number:>6}\tline {number}\n" for number in range(first, last + 1))


@pytest.fixture
def long_file(root: Path) -> None:
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 5001)))


def test_a_short_file_is_shown_whole_with_numbers_and_total(root: Path, call: Call):
    (root / "a.py").write_text("import os\n\nprint(1)\n")
    assert call("read_file", path="a.py") == ToolAnswer(
        "[lines 1-3 of 3]\n     1\timport os\n     2\t\n     3\tprint(1)", about="read_file 'a.py' lines 1-3 of 3"
    )


def test_a_long_file_shows_both_ends_and_says_how_to_read_the_rest(long_file: None, call: Call):
    answer = call("read_file", path="long.txt")
    assert answer.text.startswith("[lines 1-")
    assert "     1\tline 1\n" in answer.text
    assert answer.text.endswith("  5000\tline 5000")
    assert len(answer.text) < 10_500
    first = int(answer.text.split("[... lines ")[1].split("-")[0])
    assert f"  {first - 1:>4}\tline {first - 1}\n[... lines {first}-" in answer.text
    assert f"Read them with offset={first}" in answer.text


def test_a_range_is_shown_exactly(long_file: None, call: Call):
    answer = call("read_file", path="long.txt", offset=100, limit=3)
    assert answer.text == "[lines 100-102 of 5000]\n" + numbered(100, 102).rstrip("\n")


def test_ranges_of_50_kb_follow_each_other_until_the_end(long_file: None, root: Path, call: Call):
    (root / "big.txt").write_text("".join(f"{number} {'x' * 90}\n" for number in range(1, 2001)))
    offset, seen = 1, list[str]()
    while offset:
        answer = call("read_file", path="big.txt", offset=offset, limit=2000)
        assert len(answer.text) < 50_500
        lines = [line for line in answer.text.split("\n") if "\t" in line]
        seen += [line.split("\t")[1].split(" ")[0] for line in lines]
        more = answer.text.split("go on with offset=")
        offset = int(more[1].rstrip("]")) if len(more) == 2 else 0
    assert seen == [str(number) for number in range(1, 2001)]


def test_an_offset_past_the_end_is_answered_with_the_length(long_file: None, call: Call):
    answer = call("read_file", path="long.txt", offset=6000)
    assert answer.is_error
    assert "5000 lines" in answer.text


def test_an_empty_file_is_said_to_be_empty(root: Path, call: Call):
    (root / "empty").touch()
    assert call("read_file", path="empty").text == "[lines 0-0 of 0] (the file is empty)"


def test_an_endless_line_is_cut_and_the_lines_after_it_are_not(root: Path, call: Call):
    (root / "min.js").write_text("x" * 1_000_000 + "\nend\n")
    answer = call("read_file", path="min.js")
    assert "998,000 more characters in this line" in answer.text
    assert answer.text.endswith("\tend")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("paper.pdf", b"%PDF-1.7 text only so far", ("PDF", "pdftotext")),
        ("book.xlsx", b"PK\x03\x04rest", ("spreadsheet", "openpyxl")),
        ("noname", b"SQLite format 3\0rest", ("SQLite", "sqlite3")),
        ("data.bin", b"abc\0def", ("binary", "xxd")),
        ("x.png", b"\x89PNG\r\n", ("image", "file")),
        ("x.zip", b"PK\x03\x04", ("ZIP", "unzip")),
    ],
)
def test_a_binary_file_is_refused_with_its_type_and_the_right_tool(
    root: Path, call: Call, name: str, data: bytes, words: tuple[str, str]
):
    (root / name).write_bytes(data)
    answer = call("read_file", path=name)
    assert answer.is_error
    assert len(answer.text) < 300
    assert all(word in answer.text for word in words)


def test_a_binary_of_many_megabytes_costs_few_characters(root: Path, call: Call):
    (root / "paper").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 20_000)
    assert len(call("read_file", path="paper").text) < 300


def test_utf16_and_latin1_are_text(root: Path, call: Call):
    (root / "w.txt").write_bytes("\ufeffGrüße\r\n".encode("utf-16-le"))
    (root / "l.txt").write_bytes("für alle Fälle, Grüße an Jürgen und die Söhne\n".encode("latin-1"))
    assert call("read_file", path="w.txt").text == (
        "[lines 1-1 of 1] (utf-16-le, with BOM) (CRLF line endings)\n     1\tGrüße"
    )
    assert "für alle Fälle, Grüße an Jürgen" in call("read_file", path="l.txt").text


def test_what_is_shown_is_always_valid_text_without_nul(root: Path, call: Call):
    (root / "odd.txt").write_bytes(b"a" * 9000 + b"\n\0\xff\xfe\xed\xa0\x80\n")
    answer = call("read_file", path="odd.txt")
    assert "\0" not in answer.text
    answer.text.encode("utf-8")


def test_a_file_beyond_the_guard_is_refused_with_advice(root: Path, call: Call):
    with (root / "huge").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    answer = call("read_file", path="huge")
    assert answer.is_error
    assert "sed -n" in answer.text


def test_a_written_file_is_there_with_its_folders(root: Path, call: Call):
    answer = call("write_file", path="src/new/a.py", content="x = 1\n")
    assert answer == ToolAnswer("created 'src/new/a.py': 1 line, 6 bytes", changed=True)
    assert (root / "src/new/a.py").read_text() == "x = 1\n"
    assert call("write_file", path="src/new/a.py", content="x = 2\n").text.startswith("replaced")


def test_writing_what_is_already_there_is_no_change(root: Path, call: Call):
    (root / "a").write_text("same")
    answer = call("write_file", path="a", content="same")
    assert not answer.changed
    assert "nothing was changed" in answer.text


def test_more_than_8_mib_is_not_written(root: Path, call: Call):
    answer = call("write_file", path="a", content="x" * (8 * 1024 * 1024 + 1))
    assert answer.is_error
    assert not (root / "a").exists()
    assert call("write_file", path="a", content="x" * (8 * 1024 * 1024)).changed


def test_content_that_is_not_text_is_refused_before_the_file_is_touched(root: Path, call: Call):
    (root / "a").write_text("old")
    assert call("write_file", path="a", content="x\ud800").is_error
    assert (root / "a").read_text() == "old"


def test_a_folder_lists_kinds_and_sizes(root: Path, call: Call):
    (root / "sub").mkdir()
    (root / "a.py").write_text("12345")
    (root / "link").symlink_to("a.py")
    assert call("list_files").text == "a.py  (5 bytes)\nlink  (symbolic link)\nsub/"


def test_a_pattern_finds_files_at_every_depth_but_not_in_bulk_folders(root: Path, call: Call):
    for name in ("a.py", "src/b.py", "src/deep/c.py", "node_modules/d.py", ".git/e.py", "src/x.ts"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert call("list_files", pattern="*.py").text.split("\n") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert call("list_files", path="src", pattern="*.py").text.split("\n") == ["src/b.py", "src/deep/c.py"]
    assert call("list_files", pattern="src/**/*.ts").text == "src/x.ts"
    missing = call("list_files", pattern="*.rs")
    assert missing.is_error
    assert "4 files looked at" in missing.text


def test_a_listing_does_not_leave_the_tree_through_links(root: Path, call: Call):
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "theirs.py").touch()
    (root / "out").symlink_to("../outside")
    assert "theirs" not in call("list_files", pattern="*").text
    assert call("list_files", path="out").is_error


@pytest.fixture(params=["ripgrep", "our own"])
def search(request: pytest.FixtureRequest, root: Path, bash) -> Call:
    toolbox = Toolbox(root, bash if request.param == "ripgrep" else None)

    def searched(**arguments: object) -> ToolAnswer:
        return toolbox.call(ToolUse("id", "search_files", dict(arguments)), 60)

    return searched


def test_a_search_gives_path_line_and_text(root: Path, search: Call):
    (root / "sub").mkdir()
    (root / "a.py").write_text("x = 1\ndef find_me():\n")
    (root / "sub" / "b.txt").write_text("call find_me()\n")
    assert search(pattern=r"find_me\(").text == "a.py:2:def find_me():\nsub/b.txt:1:call find_me()"
    assert search(pattern="find_me", glob="*.txt").text == "sub/b.txt:1:call find_me()"
    assert search(pattern="find_me", path="a.py").text == "a.py:2:def find_me():"
    assert search(pattern="not there").text == "nothing in '.' fits 'not there'"


def test_a_bad_expression_is_explained(root: Path, search: Call):
    (root / "a").write_text("x\n")
    answer = search(pattern="(")
    assert answer.is_error
    assert "search failed" in answer.text


def test_a_pattern_is_never_a_command_or_an_option(root: Path, search: Call):
    (root / "a").write_text("--files; touch made\n")
    assert search(pattern="--files; touch made").text == "a:1:--files; touch made"
    search(pattern="$(touch made)`touch made`' ; touch made", glob="'; touch made; '")
    search(pattern="x'; touch made; echo '", glob="x'; touch made; echo '")
    assert not (root / "made").exists()


def test_a_search_is_bounded(root: Path, search: Call):
    (root / "a").write_text("".join(f"hit {'x' * 1000}\n" for _ in range(90)))
    for number in range(5):
        (root / f"b{number}").write_text("hit\n" * 90)
    answer = search(pattern="hit")
    assert len(answer.text) < 21_000
    assert "narrow" in answer.text


def test_a_search_does_not_leave_the_tree_through_links(root: Path, search: Call):
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "f").write_text("hush\n")
    (root / "folder").symlink_to("../outside")
    (root / "file").symlink_to("../outside/f")
    assert "nothing" in search(pattern="hush").text
    assert search(pattern="hush", path="folder").is_error


def test_an_expression_that_never_ends_is_ended(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("delegation.agents.tools.search_files._SECONDS", 1.0)
    (root / "a").write_text("a" * 60 + "!\n")
    answer = Toolbox(root, None).call(ToolUse("id", "search_files", {"pattern": "^(a+)+$"}), 60)
    assert answer.is_error
    assert "longer than 1 s" in answer.text


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {}, ["path is missing", "Received: {}", "path: string"]),
        ("read_file", {"file_path": "a"}, ["file_path is an unknown key", "'file_path': 'a'", "offset?: integer"]),
        (
            "write_file",
            {"path": "a", "content": {"x": 1}},
            ["content must be a text, not an object", "string", "content: string"],
        ),
        ("run_bash", {"command": "true", "timeout_seconds": float("nan")}, ["timeout_seconds"]),
        ("run_bash", {"command": "true", "timeout_seconds": 1801}, ["timeout_seconds"]),
        ("read_file", {"path": "a", "offset": -1}, ["offset"]),
    ],
)
def test_a_malformed_call_is_answered_with_what_came_and_what_is_required(
    call: Call, name: str, arguments: dict[str, object], words: list[str]
):
    answer = call(name, **arguments)
    assert (answer.is_error, answer.malformed, answer.ran_command) == (True, True, False)
    assert [word for word in words if word not in answer.text] == []


def test_a_call_with_a_problem_is_not_run_and_shows_what_was_sent(root: Path, toolbox: Toolbox):
    use = ToolUse("id", "write_file", {}, raw='{"path": a.py"}', problem="the arguments are not valid JSON")
    answer = toolbox.call(use, 60)
    assert answer.malformed
    assert '{"path": a.py"}' in answer.text
    assert "not valid JSON" in answer.text
    assert list(root.iterdir()) == []


def test_an_unknown_tool_is_answered_with_those_that_exist(call: Call):
    answer = call("apply_patch", path="x")
    assert answer.malformed
    assert "read_file, write_file, edit_file, list_files, search_files, run_bash" in answer.text


def test_only_the_allowed_tools_exist(root: Path, bash):
    reader = Toolbox(root, bash, allowed=("read_file", "search_files"))
    assert [spec.name for spec in reader.specs] == ["read_file", "search_files"]
    assert reader.call(ToolUse("id", "write_file", {"path": "a", "content": "x"}), 60).is_error
    assert Toolbox(root, None).names == TOOL_NAMES[:-1]


def test_the_interface_of_the_tools_is_the_documented_one(toolbox: Toolbox):
    shape = {
        spec.name: (sorted(spec.parameters["properties"]), sorted(spec.parameters["required"]))
        for spec in toolbox.specs
    }
    assert shape == {
        "read_file": (["limit", "offset", "path"], ["path"]),
        "write_file": (["content", "path"], ["content", "path"]),
        "edit_file": (["new_text", "old_text", "path", "replace_all"], ["new_text", "old_text", "path"]),
        "list_files": (["path", "pattern"], []),
        "search_files": (["glob", "path", "pattern"], ["pattern"]),
        "run_bash": (["command", "timeout_seconds"], ["command"]),
    }
    assert toolbox.specs[0].parameters["properties"]["offset"] == {
        "type": "integer",
        "minimum": 1,
        "description": "First line to show, counted from 1.",
    }


def test_two_threads_can_use_one_toolbox(root: Path, toolbox: Toolbox):
    def write(number: int) -> None:
        for turn in range(30):
            toolbox.call(ToolUse("id", "write_file", {"path": f"f{number}", "content": f"{turn}"}), 60)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in root.iterdir()) == ["f0", "f1", "f2", "f3"]
