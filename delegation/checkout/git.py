"""The one door to git: every call has a timeout, its own session, no inherited `GIT_*` and no foreign program in it.

Hooks, file system monitors, signing, pagers, terminal prompts and automatic maintenance are off for each call, so that
neither a repository's settings nor the user's can make a call of ours wait, run a program or change what it answers.
"""

import difflib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from delegation.errors import UsageError, WorkFailed

_QUIET = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.quotePath=true",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "color.ui=false",
    "submodule.recurse=false",
    "index.threads=1",
)
# What git and its transports need from the caller's environment; everything else (above all GIT_* and keys) stays out.
_KEPT = re.compile(r"(?i:PATH|HOME|USER|LOGNAME|TMPDIR|TEMP|TMP|SYSTEMROOT|XDG_CONFIG_HOME|SSH_AUTH_SOCK|\w+_PROXY)")
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
}
_LOCKED = re.compile(rb"\.lock': File exists|could not lock")


@dataclass(frozen=True)
class Answer:
    """What one call gave, byte for byte."""

    command: str
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def message(self) -> str:
        """The end of what git said, as text that is safe to show."""
        return self.stderr[-2000:].decode("utf-8", "backslashreplace").strip()

    @property
    def met_a_lock(self) -> bool:
        return self.exit_code != 0 and _LOCKED.search(self.stderr) is not None


_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Generator[None]:
    """Git calls of this thread inside end by then together, with WorkFailed('checkout'); None lifts an outer limit."""
    outer = _ends_at.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(outer)


def ask_git(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_seconds: float = 120,
) -> Answer:
    """Run git and give its answer whatever its exit code. Raises WorkFailed('checkout') when it cannot run or hangs."""
    timeout_seconds = _seconds_left(timeout_seconds, args)
    argv = ["git", "--no-pager", *_options(cwd, env or {}), *args]
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=_environment(env or {}),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        reason = f"{error.strerror} ({error.filename!r})"
        raise WorkFailed("checkout", f"cannot run git in {str(cwd)!r}: {reason}") from error
    with process:
        stdout, stderr = _communicate(process, stdin, timeout_seconds, command := _shown(args))
    return Answer(command, process.returncode, stdout, stderr)


def _seconds_left(wanted: float, args: tuple[str, ...]) -> float:
    ends_at = _ends_at.get()
    if ends_at is None:
        return wanted
    left = ends_at - time.monotonic()
    if left <= 0:
        raise WorkFailed("checkout", f"no time was left for {_shown(args)}")
    return min(wanted, left)


def git_bytes(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    timeout_seconds: float = 120,
) -> bytes:
    """Standard output, untouched. Raises WorkFailed('checkout') with the command and git's words unless it exits 0."""
    answer = ask_git(*args, cwd=cwd, env=env, stdin=stdin, timeout_seconds=timeout_seconds)
    if check and answer.exit_code != 0:
        raise WorkFailed(
            "checkout", f"{answer.command} in {str(cwd)!r} ended with exit code {answer.exit_code}: {answer.message}"
        )
    return answer.stdout


def git(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
    timeout_seconds: float = 120,
) -> str:
    """Standard output as text, untouched but for bytes that are not UTF-8 (escaped). Raises as `git_bytes` does."""
    output = git_bytes(*args, cwd=cwd, env=env, stdin=stdin, check=check, timeout_seconds=timeout_seconds)
    return output.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Location:
    """A repository as git sees it. `top` is the folder of its working files, or its git directory when it is bare."""

    top: Path
    git_dir: Path
    common_dir: Path
    bare: bool

    @property
    def objects(self) -> Path:
        return self.common_dir / "objects"


def locate(path: Path) -> Location | None:
    """The repository around a path, or None outside of one. Raises UsageError with git's words for one it refuses, and
    for a path that is not UTF-8: no record could hold it."""
    if not path.is_dir():
        return None
    _check_can_be_written_down(path)
    return _located_at_once(path) or _located_step_by_step(path)


def _located_at_once(path: Path) -> Location | None:
    """Where one question tells all of it: in a checkout whose paths hold no line break."""
    answer = ask_git(
        "rev-parse", "--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-toplevel", cwd=path
    )
    lines = os.fsdecode(answer.stdout).removesuffix("\n").split("\n")
    if answer.exit_code != 0 or len(lines) != 4:
        return None
    return Location(Path(lines[3]), Path(lines[1]), (path / lines[2]).resolve(), bare=False)


def _located_step_by_step(path: Path) -> Location | None:
    answer = ask_git("rev-parse", "--is-bare-repository", "--absolute-git-dir", cwd=path)
    if answer.exit_code != 0:
        if b"not a git repository (or any" in answer.stderr:
            return None
        raise UsageError(f"git refuses the repository at {str(path)!r}: {' '.join(answer.message.split())}")
    bare, _, git_dir = os.fsdecode(answer.stdout).removesuffix("\n").partition("\n")  # a path may hold more of them
    places = Path(git_dir), (path / _asked(path, "--git-common-dir")).resolve()
    if bare == "true":
        return Location(places[0], *places, bare=True)
    top = ask_git("rev-parse", "--show-toplevel", cwd=path)
    if top.exit_code != 0:  # inside .git itself
        return Location(places[0], *places, bare=True)
    return Location(Path(os.fsdecode(top.stdout).removesuffix("\n")), *places, bare=False)


def _check_can_be_written_down(path: Path) -> None:
    try:
        str(path.resolve()).encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise UsageError(f"the path {shown!r} is not UTF-8, and no record can hold it: rename the folder") from None


def _asked(path: Path, question: str) -> str:
    """One answer of rev-parse; asked one by one, because a path may hold a newline."""
    return os.fsdecode(git_bytes("rev-parse", question, cwd=path)).removesuffix("\n")


def top_level(path: Path) -> Path | None:
    """The top folder of the repository around a path (a bare one's own folder), or None. Raises as `locate` does."""
    location = locate(path)
    return location.top if location else None


def ignored_among(paths: Sequence[bytes], ask: Callable[..., Answer]) -> list[bytes]:
    """Those of the paths that ignore rules leave out. `./` keeps a leading colon from being read as pathspec magic."""
    if not paths:
        return []
    answer = ask("check-ignore", "-z", "--stdin", stdin=b"".join(b"./" + path + b"\0" for path in paths))
    if answer.exit_code not in (0, 1):
        raise WorkFailed("checkout", f"{answer.command} failed: {answer.message}")
    return [path.removeprefix(b"./") for path in answer.stdout.split(b"\0")[:-1]]


def resolve_commit(repo: Path, ref: str) -> str:
    """The full hash of the commit a name means. Raises UsageError: no commits, unknown name (with the nearest ones)."""
    answer = ask_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", cwd=repo)
    if answer.exit_code == 0:
        return answer.stdout.decode().strip()
    if answer.message:
        raise UsageError(f"git cannot resolve {ref!r} in {str(repo)!r}: {answer.message}")
    names = git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes", cwd=repo)
    if not names and ask_git("rev-parse", "--verify", "--quiet", "HEAD", cwd=repo).exit_code != 0:
        raise UsageError(f"the repository {str(repo)!r} has no commits: make a first commit, then delegate")
    known = sorted(names.splitlines(), key=_is_ours)
    near = sorted(difflib.get_close_matches(ref, known, n=5, cutoff=0.5), key=_is_ours) or known[:5]
    raise UsageError(f"no commit is called {ref!r} in {str(repo)!r}; near names: {', '.join(near) or 'none'}")


def _is_ours(name: str) -> bool:
    """A branch of a delegation: the user's own ones are nearer to what they mean."""
    return name.startswith("delegate/")


def _options(cwd: Path, env: Mapping[str, str]) -> list[str]:
    trusted = [] if "GIT_DIR" in env else [f"safe.directory={path}" for path in _repositories_above(cwd)]
    return [word for setting in (*_QUIET, *trusted) for word in ("-c", setting)]


def _repositories_above(cwd: Path) -> list[Path]:
    """Folders git may take for the repository. Naming them for this one call admits a foreign owner, and only there."""
    here = cwd.resolve()
    return [folder for folder in (here, *here.parents) if (folder / ".git").exists() or (folder / "HEAD").is_file()]


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    # The environment is read here and not in settings.py: a git call needs the caller's PATH and HOME as they are now.
    return {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)} | _FIXED | dict(extra)


def _communicate(
    process: "subprocess.Popen[bytes]", stdin: bytes | None, timeout_seconds: float, command: str
) -> tuple[bytes, bytes]:
    try:
        return process.communicate(stdin, timeout=timeout_seconds)
    except subprocess.TimeoutExpired as error:
        raise WorkFailed("checkout", f"{command} did not end within {timeout_seconds:g} s") from error
    finally:
        if process.returncode is None:
            _kill_session(process)


def _kill_session(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _shown(args: tuple[str, ...]) -> str:
    text = " ".join(("git", *args))
    return text if len(text) <= 300 else f"{text[:300]}..."
