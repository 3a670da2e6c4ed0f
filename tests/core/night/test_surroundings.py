"""Whose models and keys a night has: those of whoever asked, kept by reference, though the stack knows none of them."""

import os
import stat
import time
from pathlib import Path

import pytest

from delegation.errors import UsageError, WorkFailed
from delegation.kept_keys import clear_keys
from delegation.night.surroundings import forget_surroundings, keep_surroundings, settings_for
from delegation.settings import Settings, load_settings

WHEN_OLD = 40 * 24 * 3600


@pytest.fixture
def asker(delegate_home: Path, tmp_path: Path) -> Settings:
    """A user with a model in the file whose key is in a variable, and one of three variables."""
    (delegate_home / "config").mkdir(parents=True)
    (delegate_home / "config" / "delegate.toml").write_text(
        '[models.paid]\nbase_url = "https://api.example/v1"\nkey = "env:PAID_KEY"\n', encoding="utf-8"
    )
    environ = {
        **os.environ,
        "PAID_KEY": "sk-paid",
        "DELEGATE_LOCAL_URL": "http://127.0.0.1:9/v1/chat/completions",
        "DELEGATE_LOCAL_KEY": "sk-local",
        "DELEGATE_LOCAL_MODEL": "local-x",
        "DELEGATE_CONCURRENCY_LOCAL": "7",
        "DELEGATE_ENV_PASSTHROUGH": "PROJECT_*",
        "PROJECT_TOKEN": "t",
        "UNRELATED_SECRET": "no",
        "PREFECT_API_KEY": "no",
    }
    return load_settings(environ, tmp_path)


def test_the_night_resolves_models_as_the_asker_did_and_no_value_stands_in_the_file(asker: Settings):
    name = keep_surroundings(asker, "once-1")
    there = settings_for(name)

    assert there.environ["PAID_KEY"] == "sk-paid"
    assert (there.local_url, there.local_key, there.local_model) == (asker.local_url, "sk-local", "local-x")
    assert (there.ceilings, there.cwd, there.home) == ({"LOCAL": 7}, asker.cwd, asker.home)
    assert there.environ["PROJECT_TOKEN"] == "t"
    assert "UNRELATED_SECRET" not in there.environ
    assert there.environ.get("PREFECT_API_KEY") is None
    file = asker.home.nights / "once-1.surroundings.json"
    assert "sk-" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert settings_for(None).local_url is None


def test_the_keeper_keeps_the_keys_of_what_comes_every_night_and_lets_those_of_old_nights_go(asker: Settings):
    for name in ("every-1", "once-1"):
        keep_surroundings(asker, name)
        long_ago(asker.home.nights / f"{name}.surroundings.json")
    for secret in asker.home.secrets.iterdir():
        long_ago(secret)
    assert clear_keys(asker.home, keep_days=14) == 0
    forget_surroundings(asker.home, "every-1")
    assert clear_keys(asker.home, keep_days=14) > 0

    with pytest.raises(WorkFailed, match="submit again"):
        settings_for("once-1")
    with pytest.raises(UsageError, match="call `delegate night` again"):
        settings_for("every-1")


@pytest.mark.parametrize("name", ["../config/delegate", "", "A", "x" * 81, "/etc/passwd"])
def test_a_name_leads_nowhere_else(asker: Settings, name: str):
    with pytest.raises(UsageError, match="names no settings"):
        settings_for(name)


def long_ago(path: Path) -> None:
    then = time.time() - WHEN_OLD
    os.utime(path, (then, then))
