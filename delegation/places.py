"""Where state and configuration lie, from the environment's words. Nothing is created here."""

import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from delegation.errors import UsageError
from delegation.home import Home

APPLICATION = "delegate-flows"


def home_from(environ: Mapping[str, str]) -> Home:
    """All state under DELEGATE_HOME, with config/delegate.toml in it; else the user's data and config folders.

    Raises UsageError in one line when the folder cannot be one: relative, below a file, or no HOME to derive it from.
    """
    chosen = environ.get("DELEGATE_HOME", "").strip()
    if chosen:
        root = _below_folders(_absolute(chosen, environ))
        home = Home(root=root, config_file=root / "config" / "delegate.toml")
    else:
        home = Home(
            root=_below_folders(_platform_folder("data", environ)),
            config_file=_platform_folder("config", environ) / "delegate.toml",
        )
    for place in (home.root, home.config_file):
        check_isolation(place, environ)
    return home


def check_isolation(place: Path, environ: Mapping[str, str]) -> None:
    """The tests' safety net: with DELEGATE_TEST_ISOLATION (even empty) nothing lies outside of its root.

    Against mistakes, not against a hostile process. Raises UsageError that names the place.
    """
    if "DELEGATE_TEST_ISOLATION" not in environ:
        return
    root = environ.get("DELEGATE_TEST_ISOLATION_ROOT", "")
    if not Path(root).is_absolute():
        raise UsageError("DELEGATE_TEST_ISOLATION is set: DELEGATE_TEST_ISOLATION_ROOT must be an absolute path")
    if not place.resolve().is_relative_to(Path(root).resolve()):
        raise UsageError(f"{str(place)!r} lies outside of DELEGATE_TEST_ISOLATION_ROOT ({root!r}): a test would leak")


def expanded(text: str, environ: Mapping[str, str], relative_to: Path) -> Path:
    """An absolute path from one that may begin with `~` or be relative. Raises UsageError for `~` without HOME."""
    path = Path(text)
    if path.parts and path.parts[0] == "~":
        path = user_home(environ, f"{text!r}").joinpath(*path.parts[1:])
    elif text.startswith("~"):
        raise UsageError(f"{text!r} names another user's folder: write the whole path")
    return path if path.is_absolute() else relative_to / path


def user_home(environ: Mapping[str, str], wanted_for: str) -> Path:
    """The user's own folder. Raises UsageError when the environment does not say it: guessing would write elsewhere."""
    text = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME", "").strip()
    if not text or not Path(text).is_absolute():
        said = "is not set" if not text else f"is {text!r}, not an absolute path"
        raise UsageError(f"HOME {said}, so {wanted_for} has no place: set HOME, or DELEGATE_HOME to an absolute path")
    return Path(text)


def _absolute(text: str, environ: Mapping[str, str]) -> Path:
    if "\0" in text:
        raise UsageError("DELEGATE_HOME holds a NUL character: set it to an absolute path")
    if text.startswith("~"):
        return expanded(text, environ, Path("/"))
    if not Path(text).is_absolute():
        raise UsageError(
            f"DELEGATE_HOME={text!r} is relative, so every folder would get its own state: set it to an absolute path"
        )
    return Path(text)


def _below_folders(root: Path) -> Path:
    try:
        resolved = root.resolve()
        place = next(place for place in (resolved, *resolved.parents) if place.exists())
        if place.is_dir():
            return resolved
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"the state directory {str(root)!r} cannot be used ({error}): set DELEGATE_HOME to another"
        ) from error
    raise UsageError(
        f"the state directory {str(root)!r} cannot be made: {str(place)!r} is a file, not a folder; set DELEGATE_HOME"
    )


def _platform_folder(kind: str, environ: Mapping[str, str]) -> Path:
    if sys.platform in ("win32", "darwin"):
        data = kind == "data"
        return (
            platformdirs.user_data_path(APPLICATION, False)
            if data
            else platformdirs.user_config_path(APPLICATION, False)
        )
    variable, usual = {"data": ("XDG_DATA_HOME", ".local/share"), "config": ("XDG_CONFIG_HOME", ".config")}[kind]
    chosen = environ.get(variable, "")
    base = Path(chosen) if Path(chosen).is_absolute() else user_home(environ, f"the {kind} folder") / usual
    return base / APPLICATION
