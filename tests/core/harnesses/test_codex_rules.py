"""Codex's version, its login and the week of its plan, from files as Codex writes them."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delegation.errors import StackError, UsageError, WorkFailed
from delegation.harnesses.codex import Codex, native, too_old
from delegation.harnesses.codex_login import auth_stopped, login_mark, login_state, stop_for_auth
from delegation.harnesses.codex_quota import quota_warning, weekly_quota
from delegation.harnesses.running import run_harness
from tests.doubles.harness_jobs import harness_settings, job, program

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_a_version_that_cannot_run_the_model_is_told_how_to_upgrade():
    said = too_old("0.163.9", "gpt-6.1-terra") or ""
    assert "0.164 or newer" in said
    assert "npm install -g @openai/codex@latest" in said
    assert (too_old("0.164.0", "gpt-6.1-terra"), too_old("1.0.0", "gpt-6.1-sol")) == (None, None)
    assert (too_old("0.100.0", "gpt-5.5"), too_old(None, "gpt-6.1-terra")) == (None, None)


def test_an_old_program_is_not_started(tmp_path: Path):
    body = f'#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.150.0 && exit 0\ntouch {tmp_path}/started\n'
    old = program(tmp_path, "codex", body)
    settings = harness_settings(tmp_path, DELEGATE_CODEX_BIN=str(old))
    with pytest.raises(WorkFailed, match="too old") as failed:
        run_harness(Codex(settings), job(tmp_path, "codex", model="gpt-6.1-terra"), settings)
    assert failed.value.kind == "config"
    assert not (tmp_path / "started").exists()


def test_the_program_behind_npms_launcher_is_found(tmp_path: Path):
    package = tmp_path / "node_modules" / "@openai"
    real = package / "codex-linux-x64" / "vendor" / "x86_64-unknown-linux-musl" / "bin" / "codex"
    launcher = package / "codex" / "bin" / "codex.js"
    for path in (real, launcher):
        path.parent.mkdir(parents=True)
        path.touch()
    link = tmp_path / "node_modules" / ".bin" / "codex"
    link.parent.mkdir()
    link.symlink_to("../@openai/codex/bin/codex.js")
    assert native(link) == real
    assert native(real) == real


def session(home: Path, name: str, *windows: dict[str, object] | None, day: str = "2026/11/29", age: float = 0) -> Path:
    """A rollout file with one line of figures for each pair of windows."""
    path = home / "sessions" / day / f"rollout-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ['{"timestamp":"2026-11-29T08:00:00Z","type":"session_meta","payload":{}}', "{broken"]
    for secondary in windows:
        limits = {"primary": {"used_percent": 99, "window_minutes": 300, "resets_at": 1}, "secondary": secondary}
        payload = {"type": "token_count", "info": None, "rate_limits": limits}
        lines.append(json.dumps({"timestamp": "2026-11-29T09:00:00Z", "type": "event_msg", "payload": payload}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    return path


def week(used: float, days: float = 3) -> dict[str, object]:
    return {"used_percent": used, "window_minutes": 10_080, "resets_at": int((NOW + timedelta(days=days)).timestamp())}


def test_the_newest_weekly_figure_counts_and_the_five_hours_do_not(tmp_path: Path):
    session(tmp_path, "old", week(20), day="2026/11/28", age=900)
    session(tmp_path, "new", week(60), week(61.5), None)
    found = weekly_quota(tmp_path, NOW)
    assert found is not None
    assert (found.used_percent, found.resets_at) == (61.5, NOW + timedelta(days=3))


def test_a_week_that_is_over_says_nothing(tmp_path: Path):
    session(tmp_path, "a", week(99, days=-0.1))
    assert weekly_quota(tmp_path, NOW) is None


def test_damaged_files_links_and_no_files_say_nothing(tmp_path: Path):
    assert weekly_quota(tmp_path, NOW) is None
    path = session(tmp_path, "a")
    (path.parent / "rollout-b.jsonl").write_bytes(b'\xff\xfe"rate_limits"\n[]\n{"rate_limits":1}\n')
    (path.parent / "rollout-c.jsonl").symlink_to("/etc/passwd")
    assert weekly_quota(tmp_path, NOW) is None


def test_above_the_warning_it_warns_and_never_blocks(tmp_path: Path):
    settings = harness_settings(tmp_path, CODEX_HOME=str(tmp_path / "codex"))
    session(tmp_path / "codex", "a", week(85))
    assert quota_warning(settings, now=NOW) is None
    session(tmp_path / "codex", "b", week(86))
    assert "86 % of the week" in (quota_warning(settings, now=NOW) or "")


def test_above_the_refusal_it_refuses_unless_the_caller_insists(tmp_path: Path):
    more = {"DELEGATE_CODEX_QUOTA_REFUSE_PCT": "90"}
    settings = harness_settings(tmp_path, CODEX_HOME=str(tmp_path / "codex"), **more)
    session(tmp_path / "codex", "a", week(90))
    assert quota_warning(settings, now=NOW) is not None
    session(tmp_path / "codex", "b", week(90.5))
    with pytest.raises(UsageError, match="allow_over_quota=true"):
        quota_warning(settings, now=NOW)
    assert "90.5 %" in (quota_warning(settings, allow_over_quota=True, now=NOW) or "")


def test_the_stop_after_a_refused_login_ends_when_the_login_changes(tmp_path: Path):
    settings = harness_settings(tmp_path, CODEX_HOME=str(tmp_path / "codex"))
    (tmp_path / "codex").mkdir()
    login = tmp_path / "codex" / "auth.json"
    login.write_text("old")
    assert not auth_stopped(settings)
    stop_for_auth(settings)
    assert auth_stopped(settings)
    assert auth_stopped(settings)
    login.write_text("new")
    assert not auth_stopped(settings)
    login.write_text("old")
    assert not auth_stopped(settings)


def test_a_login_that_changed_while_a_run_with_the_earlier_one_was_at_work_is_not_stopped(tmp_path: Path):
    settings = harness_settings(tmp_path, CODEX_HOME=str(tmp_path / "codex"))
    (tmp_path / "codex").mkdir()
    login = tmp_path / "codex" / "auth.json"
    login.write_text("refused later")
    used = login_mark(settings)
    login.write_text("of a person who logged in meanwhile")
    stop_for_auth(settings, used)
    assert not auth_stopped(settings)
    stop_for_auth(settings, login_mark(settings))
    assert auth_stopped(settings)


def test_state_is_private_moves_with_its_variable_and_is_never_behind_a_link(tmp_path: Path):
    moved = tmp_path / "codex-jobs"
    settings = harness_settings(tmp_path, DELEGATE_CODEX_STATE_DIR=str(moved))
    stop_for_auth(settings)
    assert moved.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in moved.iterdir()] == [0o600]
    (tmp_path / "link").symlink_to(moved)
    linked = harness_settings(tmp_path, DELEGATE_CODEX_STATE_DIR=str(tmp_path / "link"))
    with pytest.raises(StackError, match="is a link"):
        stop_for_auth(linked)


def test_a_damaged_mark_is_put_aside_and_stops_nothing(tmp_path: Path):
    settings = harness_settings(tmp_path, DELEGATE_CODEX_STATE_DIR=str(tmp_path / "state"))
    stop_for_auth(settings)
    (tmp_path / "state" / "auth_failed.json").write_text("{half")
    assert not auth_stopped(settings)
    assert (tmp_path / "state" / "auth_failed.damaged").exists()


def test_a_login_is_there_missing_or_somewhere_that_we_cannot_see(tmp_path: Path):
    home = tmp_path / "codex"
    home.mkdir()
    settings = harness_settings(tmp_path, CODEX_HOME=str(home))
    assert login_state(settings) == "missing"
    (home / "config.toml").write_text('cli_auth_credentials_store = "keyring"\n')
    assert login_state(settings) == "unknown"
    (home / "auth.json").write_text("{}")
    assert login_state(settings) == "ok"
    (home / "auth.json").write_text('{"OPENAI_API_KEY": null, "tokens": {"access_token": "a"}}')
    assert login_state(settings) == "ok"
    (home / "auth.json").write_text('{"OPENAI_API_KEY": "sk-x", "tokens": null}')
    assert login_state(settings) == "api_key"
