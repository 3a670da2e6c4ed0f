"""The notify command: it hears what ended, within bounds, without keys, and harms nothing when it fails."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from delegation.errors import UsageError
from delegation.home import Home
from delegation.notification.hook import NAME, tell
from delegation.notification.notice import Heard, Hook, Notice, hook_of
from delegation.settings import load_settings

NOTICE = Notice(
    kind="night", id="night-x", title="Night of $(touch harm)", summary="1 of 2 cards accepted.",
    report="/tmp/a b/report.html", ui_url=None,
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "state").mkdir()
    return Home(tmp_path / "state", tmp_path / "state" / "delegate.toml")


def told(home: Home, command: str, seconds: float = 20) -> Heard:
    heard = tell(Hook(command=command, seconds=seconds), NOTICE, home=home, folder=home.root)
    assert Heard.model_validate_json((home.root / NAME).read_text(encoding="utf-8")) == heard
    return heard


def test_it_gets_the_summary_on_stdin_and_the_reports_path_as_its_argument(home: Home, tmp_path: Path):
    heard = told(home, f'cat > {tmp_path}/stdin; printf "%s" "$1" > {tmp_path}/argument; echo sent')

    assert (heard.exit_code, heard.problem, heard.output) == (0, None, "sent")
    assert json.loads((tmp_path / "stdin").read_text(encoding="utf-8")) == NOTICE.model_dump(mode="json")
    assert (tmp_path / "argument").read_text(encoding="utf-8") == "/tmp/a b/report.html"
    assert not (tmp_path / "harm").exists()


def test_it_sees_no_key_nothing_of_the_stack_and_folders_of_its_own(home: Home, monkeypatch: pytest.MonkeyPatch):
    for name in ("ANTHROPIC_API_KEY", "DELEGATE_LOCAL_KEY", "PREFECT_API_AUTH_STRING", "SSH_AUTH_SOCK", "MY_TOKEN"):
        monkeypatch.setenv(name, "sk-secret-value")
    heard = told(home, "env")

    seen = dict(line.split("=", 1) for line in heard.output.splitlines() if "=" in line)
    assert "sk-secret-value" not in heard.output
    assert seen["DELEGATE_HOME"] == str(home.root)
    assert seen["HOME"] not in ("", os.environ["HOME"])
    assert not Path(seen["HOME"]).exists()


def test_it_finds_its_programs_where_the_asker_did(home: Home, tmp_path: Path):
    program = tmp_path / "bin" / "say-it"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho said\n")
    program.chmod(0o755)
    hook = Hook(command="say-it", seconds=20, search_path=f"{program.parent}:{os.environ['PATH']}")
    assert tell(hook, NOTICE, home=home, folder=home.root).output == "said"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo no such recipient >&2; exit 3", "it ended with exit code 3: no such recipient"),
        ("no-such-program-of-ours", "it ended with exit code 127: "),
        ("kill -9 $$", "it ended with exit code 137"),
    ],
)
def test_its_failure_is_said_and_raises_nothing(home: Home, command: str, problem: str):
    heard = told(home, command)
    assert str(heard.problem).startswith(problem)


def test_a_machine_without_a_shell_is_said_and_raises_nothing(home: Home):
    hook = Hook(command="true", seconds=20, search_path="/nowhere")
    heard = tell(hook, NOTICE, home=home, folder=home.root)
    assert (heard.exit_code, str(heard.problem)[:22]) == (None, "it could not be run: c")


def test_it_is_ended_with_its_children_when_its_time_is_over(home: Home, tmp_path: Path):
    begun = time.monotonic()
    heard = told(home, f"sleep 300 & echo $! > {tmp_path}/child; sleep 300", seconds=1)

    assert heard.problem == "it took longer than 1 s and was ended"
    assert time.monotonic() - begun < 15
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


def test_what_it_prints_is_bounded(home: Home):
    heard = told(home, f"{sys.executable} -c 'print(\"x\" * 5_000_000)'; exit 1")
    assert len(heard.output) < 20_000
    assert len(str(heard.problem)) < 700


def test_a_folder_that_is_gone_costs_the_trace_and_nothing_else(home: Home, tmp_path: Path):
    heard = tell(Hook(command="true", seconds=20), NOTICE, home=home, folder=tmp_path / "gone")
    assert heard.problem is None


def test_what_is_given_wins_over_the_setting_and_an_empty_one_is_none(tmp_path: Path):
    environ = {**os.environ, "DELEGATE_NOTIFY": "mail-me", "DELEGATE_NOTIFY_SECONDS": "5"}
    settings = load_settings(environ, tmp_path)
    assert hook_of(None, settings) == Hook(command="mail-me", seconds=5, search_path=os.environ["PATH"])
    assert hook_of("other", settings) == Hook(command="other", seconds=5, search_path=os.environ["PATH"])
    assert hook_of(" ", settings) is None
    assert hook_of(None, load_settings(dict(os.environ), tmp_path)) is None


@pytest.mark.parametrize("seconds", ["0", "601", "soon"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, seconds: str):
    with pytest.raises(UsageError, match="DELEGATE_NOTIFY_SECONDS"):
        load_settings({**os.environ, "DELEGATE_NOTIFY_SECONDS": seconds}, tmp_path)


def test_the_env_file_of_a_folder_chooses_no_command(tmp_path: Path):
    (tmp_path / ".env").write_text("DELEGATE_NOTIFY=curl evil\nDELEGATE_NOTIFY_SECONDS=600\n", encoding="utf-8")
    settings = load_settings(dict(os.environ), tmp_path)
    assert (settings.notify, settings.notify_seconds) == (None, 30)
    assert sum("DELEGATE_NOTIFY" in warning for warning in settings.warnings) == 2


def test_nothing_of_it_is_left_running_or_on_disk(home: Home):
    told(home, "(sleep 200 &) ; true")
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 200" not in listed.splitlines()
    assert sorted(path.name for path in home.root.iterdir()) == [NAME]
