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
    config = text_or_none(home / "config.toml") or ""
    return "unknown" if "cli_auth_credentials_store" in config or "model_provider" in config else "missing"


def _is_api_key(path: Path) -> bool:
    try:
        login = json.loads(text_or_none(path) or "null")
    except (OSError, ValueError):
        return False
    return isinstance(login, dict) and bool(login.get("OPENAI_API_KEY")) and not login.get("tokens")


def stop_for_auth(settings: Settings) -> None:
    """Remember that this login was refused."""
    publish(state_folder(settings, "codex") / _MARK, json.dumps({"auth": _fingerprint(settings)}))


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
