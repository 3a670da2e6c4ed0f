"""Folders no agent is let into: the user's home, those with secrets, the system's, and those with our state."""

from pathlib import Path

from delegation.errors import UsageError
from delegation.settings import Settings

_SECRET = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".claude",
    ".codex",
    ".gemini",
    ".password-store",
    ".local/share/keyrings",
    "Library",
)
_SYSTEM = tuple(map(Path, ("/proc", "/sys", "/dev", "/boot", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin")))
_SYSTEM_TOP = tuple(map(Path, ("/usr", "/usr/local", "/var", "/var/lib", "/opt", "/tmp", "/run", "/srv", "/mnt")))


def check_workdir(path: Path, settings: Settings) -> None:
    """Raises UsageError that says `workdir_forbidden`, the folder and why. Links are followed before judging."""
    try:
        real = path.resolve()
        reason = _reason(real, settings)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"workdir_forbidden: {str(path)!r} cannot be followed ({error}): name a real folder"
        ) from error
    if reason:
        raise UsageError(f"workdir_forbidden: {str(path)!r} {reason}; work in a repository of its own")


def _reason(real: Path, settings: Settings) -> str | None:
    user_home = settings.user_home.resolve() if settings.user_home else None
    if real.parent == real or real in _SYSTEM_TOP or any(_inside(real, place) for place in _SYSTEM):
        return "belongs to the system"
    if user_home and _inside(user_home, real):
        return "is or contains your home folder"
    if user_home and any(_inside(real, (user_home / name).resolve()) for name in _SECRET):
        return "holds settings or secrets of yours"
    for place in (folder.resolve() for folder in settings.state_dirs):
        if _inside(real, place) or _inside(place, real):
            return f"overlaps our state in {str(place)!r}"
    return None


def _inside(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder)
