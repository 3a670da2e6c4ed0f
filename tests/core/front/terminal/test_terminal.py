"""The program `delegate` as a whole: the text and exit code of every refusal, and what it loads to answer."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from front import ROOT, Front, Ran

Call = Callable[..., Ran]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "x", "--repo", "/nonexistent/repo"], "repo '/nonexistent/repo' does not exist: give the path of"),
        (["run", "x", "--repo", "calc.py"], "calc.py' is a file, not a folder: give the path of a git repository"),
        (["run", "x", "--agent", "nosuch"], "there is no agent 'nosuch'"),
        (["run", "x", "--model", "nosuch"], "unknown model 'nosuch'"),
        (["run", "x", "--model", "paid"], "model 'paid' needs a key and PAID_KEY is not set"),
        (["run", "  "], "the task is empty: say what is to be done"),
        (["run"], "the task is empty: say what is to be done"),
        (["run", "x", "--base", "nosuch"], "nosuch"),
        (["run", "x", "--base", "--output=/tmp/x"], "--base"),
        (["run", "x", "--timeout", "-1"], "the card cannot be used: --timeout must be a whole number from 1, not -1"),
        (["run", "x", "--max-turns", "151"], "--max-turns must be a whole number from 1 to 150, not 151"),
        (["run", "x", "--expects", "miracle"], "miracle"),
        (["run", "x", "--in-place", "--isolation", "copy"], "--in-place and --isolation copy contradict each other"),
        (["run", "x", "--task-file", "calc.py"], "the task is given twice"),
        (["run", "--task-file", "nosuch.md"], "no file 'nosuch.md'"),
        (["run", "--card", "calc.py"], "the card file 'calc.py' is neither JSON nor"),
        (["run", "x", "--nosuch"], "Unknown option: --nosuch"),
        (["nosuch"], "there is no verb 'nosuch'"),
        (["show", "nosuch"], "no delegation 'nosuch': `delegate list` shows their ids"),
        (["patch", ""], "no delegation"),
        (["wait"], "wait for what? `delegate list` shows the ids"),
        (["apply"], "apply what? `delegate list` shows the ids"),
        (["rerun", "nosuch", "--from", "collect"], "collect"),
        (["list", "--since", "soon"], "--since 'soon' is no time: give how long ago"),
        (["list", "--outcome", "good"], "there is no outcome 'good': it is one of verified, refuted"),
        (["list", "--lane", "fast"], "there is no lane 'fast'"),
        (["list", "--parent", "nosuch"], "no delegation 'nosuch'"),
        (["list", "--since", "1h", "--until", "2h"], "--since 1h is not before --until 2h"),
        (["stats", "--by", "colour"], "--by 'colour': it is one of day, model"),
        (["export", "--out", "/nonexistent/folder/x.csv"], "--out '/nonexistent/folder/x.csv' cannot be written"),
        (["export", "--json"], "--json says what was written to a file: name it with --out FILE"),
        (["prune", "--older-than", "-1"], "--older-than -1: give a number from 0"),
        (["list", "--limit", "-1"], "--limit -1: give a whole number"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_with_exit_code_2_and_leaves_nothing(
    front: Front, call: Call, words: list[str], text: str
):
    config = front.home / "config" / "delegate.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[models.paid]\nbase_url = "https://example.invalid/v1"\nformat = "openai"\nkey = "env:PAID_KEY"\n',
        encoding="utf-8",
    )
    before = set(front.home.rglob("*"))

    done = call(*words)

    assert (done.code, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.startswith("delegate: ")
    assert done.stderr.count("\n") == 1
    assert set(front.home.rglob("*")) == before


def test_the_program_itself_ends_with_the_code_of_a_refusal(front: Front):
    done = front.delegate("run", "x", "--repo", "/nonexistent/repo")

    assert (done.code, done.stdout) == (2, "")
    assert (
        done.stderr
        == "delegate: repo '/nonexistent/repo' does not exist: give the path of a git repository or folder\n"
    )


def test_a_home_that_cannot_be_one_is_refused(front: Front):
    done = front.delegate("list", DELEGATE_HOME=str(front.repo / "calc.py"))

    assert (done.code, done.stdout) == (2, "")
    assert "set DELEGATE_HOME" in done.stderr


def test_a_traceback_is_shown_only_when_asked_for(front: Front):
    assert "Traceback" not in front.delegate("show", "x").stderr
    assert "Traceback" in front.delegate("show", "x", "--traceback").stderr
    assert "Traceback" in front.delegate("show", "x", DELEGATE_TRACEBACK="1").stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_the_output_is_one_line_too(front: Front):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_entry", "list", "--json"],
            cwd=ROOT, env=front.environ, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.startswith(
        "delegate: cannot write standard output or a temporary file (No space left on device)"
    )
    assert done.stderr.count("\n") == 1


def test_an_error_that_nobody_foresaw_is_one_line_too(front: Front, call: Call, monkeypatch: pytest.MonkeyPatch):
    def broken(words: list[str]) -> int:
        raise OSError(f"of {words}\nin two lines")

    monkeypatch.setattr("mcp_entry.__main__._run", broken)
    done = call("list")
    assert done.code == 2
    assert done.stderr.startswith("delegate: internal error, OSError: of ['list'] in two lines (run again with")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["list"], ["run", "--help"]])
def test_quick_verbs_load_nothing_slow(front: Front, words: list[str]):
    probe = (
        "import sys; from mcp_entry.__main__ import main; main(sys.argv[1:]);"
        "slow = {'prefect', 'mcp', 'httpx', 'sqlalchemy', 'git', 'alembic'};"
        "sys.stderr.write(' '.join(sorted(slow & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, *words], cwd=ROOT, env=front.environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_every_verb_has_a_help(front: Front):
    from mcp_entry.terminal.app import VERBS

    listed = front.delegate("--help").stdout
    for verb in VERBS:
        assert f" {verb} " in listed


def test_nothing_of_posix_is_loaded_where_it_may_be_missing():
    """The front door must import on Windows."""
    sources = list((ROOT / "mcp_entry").rglob("*.py"))
    assert sources
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not [name for name in ("fcntl", "pwd", "resource", "termios") if f"\nimport {name}" in text], source


def test_the_settings_file_of_claude_code_names_our_program():
    servers = json.loads((ROOT / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    assert servers["delegate"]["args"] == ["mcp"]
    assert Path(servers["delegate"]["command"]).name == "delegate"
    assert os.fspath(ROOT) not in json.dumps(servers)
