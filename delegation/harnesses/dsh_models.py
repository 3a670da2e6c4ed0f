"""Which models dsh may be asked for: those that the user's own file lists and does not disable. No file, no models."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delegation.errors import UsageError
from delegation.files import text_or_none
from delegation.models.lanes import refuse_by_name
from delegation.settings import Settings

_EXAMPLE = "see dsh-models.json.example"


def models_file(settings: Settings) -> Path:
    if settings.dsh_models_file is not None:
        return settings.dsh_models_file
    if settings.user_home is None:
        raise UsageError("HOME is not set: name the models of dsh in DELEGATE_DSH_MODELS_FILE")
    return settings.user_home / ".config" / "neola-lab" / "dsh-models.json"


def allowed_models(settings: Settings) -> dict[str, bool]:
    """Name -> whether it is enabled. Empty without a file. Raises UsageError for a file that cannot be read."""
    path = models_file(settings)
    try:
        text = text_or_none(path)
        content = None if text is None else json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read as JSON ({type(error).__name__}): {_EXAMPLE}") from error
    if content is None:
        return {}
    listed = content.get("models") if isinstance(content, dict) else content
    if isinstance(listed, dict):
        return {str(name): _enabled(entry) for name, entry in listed.items()}
    if isinstance(listed, list):
        return dict(_named(entry, path) for entry in listed)
    raise UsageError(f"{str(path)!r} lists no models: {_EXAMPLE}")


def _named(entry: Any, path: Path) -> tuple[str, bool]:
    if isinstance(entry, str):
        return entry, True
    name = (
        next((entry[key] for key in ("name", "id", "alias", "model") if entry.get(key)), None)
        if isinstance(entry, dict)
        else None
    )
    if name is None:
        raise UsageError(f"{str(path)!r} holds an entry without a name: {_EXAMPLE}")
    return str(name), _enabled(entry)


def _enabled(entry: Any) -> bool:
    if isinstance(entry, Mapping):
        return entry.get("enabled", True) is True and entry.get("disabled", False) is not True
    return entry is not False and entry is not None


def dsh_model(name: str, settings: Settings) -> str:
    """The model. Raises UsageError: forbidden by its plan, unknown, disabled, or no file that lists any."""
    refuse_by_name(name)
    allowed = allowed_models(settings)
    if not allowed:
        raise UsageError(f"dsh has no models: list them in {str(models_file(settings))!r} ({_EXAMPLE})")
    if name not in allowed:
        raise UsageError(
            f"dsh model {name!r} is not listed: choose one of {', '.join(n for n, on in allowed.items() if on)}"
        )
    if not allowed[name]:
        raise UsageError(f"dsh model {name!r} is disabled in {str(models_file(settings))!r}")
    return name
