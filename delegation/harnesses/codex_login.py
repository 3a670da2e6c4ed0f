"""Codex's one login: where it lies, whether it is there, and the stop after it was refused.

After a refusal nothing more is admitted until `auth.json` is another one, which is what `codex login` makes.
"""

import hashlib
import json
from pathlib import Path

from delegation.errors import UsageError
from delegation.files import publish, text_or_none
from delegation.harnesses.harness import LoginState
from delegation.harnesses.surroundings import state_folder
from delegation.settings import Settings

_MARK = "auth_failed.json"
_MOST_BYTES = 1024 * 1024
_SHORTEST_SECRET = 20  # an account's name is shorter


def codex_home(settings: Settings) -> Path:
    """CODEX_HOME, else ~/.codex. Raises UsageError where neither is known."""
    chosen = settings.environ.get("CODEX_HOME", "").strip()
    if chosen:
        return settings.path(chosen)
    if settings.user_home is None:
        raise UsageError("neither CODEX_HOME nor HOME is set, so the Codex login cannot be found")
    return settings.user_home / ".codex"


def login_state(settings: Settings) -> LoginState:
    """Whether there is a login. Codex may also keep it in the system's keyring, so a missing file proves nothing where
    its configuration says so. `api_key`: not the plan's login, and Codex would delete it when told to use the plan."""
    home = codex_home(settings)
    if (home / "auth.json").is_file():
        return "api_key" if _is_api_key(home / "auth.json") else "ok"
    config = _text(home / "config.toml") or ""
    return "unknown" if "cli_auth_credentials_store" in config or "model_provider" in config else "missing"


def _is_api_key(path: Path) -> bool:
    try:
        login = json.loads(_text(path) or "null")
    except ValueError:
        return False
    return isinstance(login, dict) and bool(login.get("OPENAI_API_KEY")) and not login.get("tokens")


def _text(path: Path) -> str | None:
    try:
        return text_or_none(path)
    except (OSError, UnicodeDecodeError):
        return None


def login_secrets(settings: Settings) -> tuple[str, ...]:
    """The tokens and keys of the login, which every command of Codex may read: for a mask only."""
    try:
        login = json.loads(_text(codex_home(settings) / "auth.json") or "null")
    except (ValueError, RecursionError):
        return ()
    given = login if isinstance(login, dict) else {}
    tokens = given.get("tokens")
    found = [given.get("OPENAI_API_KEY"), *(tokens.values() if isinstance(tokens, dict) else ())]
    return tuple(each for each in found if isinstance(each, str) and len(each) >= _SHORTEST_SECRET)


def login_mark(settings: Settings) -> str:
    """What tells this login from the one that the next `codex login` makes; no part of it."""
    return _fingerprint(settings)


def stop_for_auth(settings: Settings, used: str | None = None) -> None:
    """Remember that the login was refused which a run began with: `used` is its mark, without it that of now.

    One that became another one while the run was at work has not been refused: nothing is stopped.
    """
    now = _fingerprint(settings)
    if used in (None, now):
        publish(state_folder(settings, "codex") / _MARK, json.dumps({"auth": now}))


def auth_stopped(settings: Settings) -> bool:
    """Whether the login that is there now was refused. A changed one lifts the stop."""
    path = state_folder(settings, "codex") / _MARK
    try:
        marked = json.loads(text_or_none(path) or "null")
    except ValueError:
        path.replace(path.with_suffix(".damaged"))
        return False
    if not isinstance(marked, dict):
        return False
    if marked.get("auth") == _fingerprint(settings):
        return True
    path.unlink(missing_ok=True)
    return False


def _fingerprint(settings: Settings) -> str:
    try:
        with (codex_home(settings) / "auth.json").open("rb") as file:
            return hashlib.sha256(file.read(_MOST_BYTES)).hexdigest()
    except OSError:
        return "absent"
