"""Gemini through the Antigravity program `agy`: all permissions skipped, therefore always in its jail."""

import secrets
import sys
from pathlib import Path

from delegation.confinement import Confiner, Walls
from delegation.errors import EndpointError, UsageError, WorkFailed
from delegation.harnesses.agy_git import check_git_settings
from delegation.harnesses.agy_jail import NOT_READABLE, Jail, jail_confiner, jail_walls, make_private_home
from delegation.harnesses.gemini_output import GeminiReader
from delegation.harnesses.harness import Command, Ended, Job, Probe, Said
from delegation.harnesses.order import HarnessName
from delegation.harnesses.surroundings import (
    environment_of,
    needed_program,
    program_path,
    state_folder,
    temp_of,
    write_private,
)
from delegation.harnesses.versions import version_of
from delegation.harnesses.words import spoken_failure
from delegation.process import run
from delegation.settings import Settings

EFFORTS = ("low", "medium", "high")
_INSTALL = "install it (brew install --cask antigravity-cli), log in once by running it, or name it in DELEGATE_AGY_BIN"
_AFTER_OURS_SECONDS = 60
_TRY_SECONDS = 20
_TRY = """test -r "$1" && exit 3
(: > "$5") 2>/dev/null
ls "$2" >/dev/null 2>&1 || exit 4
test -r "$3" && exit 5
: > "$4/.jail" || exit 6
rm -f "$4/.jail"
exit 0"""
"""Arguments: a canary outside, the session, a canary in our state, the workdir, a path outside."""


def model_for(effort: str | None) -> tuple[str, str]:
    """Effort and model. Raises UsageError for anything but the three efforts."""
    wanted = (effort or "low").strip().lower()
    if wanted not in EFFORTS:
        raise UsageError(f"Gemini effort {effort!r} is refused: choose one of {', '.join(EFFORTS)}")
    return wanted, f"gemini-3.8-flash-{wanted}"


class Gemini:
    """See `Harness`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def name(self) -> HarnessName:
        return "gemini"

    def probe(self) -> Probe:
        program = program_path(self._settings.agy_bin, self._settings)
        if program is None:
            return Probe(None, problem=f"{self._settings.agy_bin!r} is not on PATH: {_INSTALL}")
        home = self._settings.user_home
        logged_in = home is not None and (home / ".gemini" / "antigravity-cli").is_dir()
        return Probe(program, version_of(program, self._settings), "unknown" if logged_in else "missing")

    def command(self, job: Job) -> Command:
        """Raises WorkFailed: no program, no jail that holds, unsafe git settings, an unreadable login."""
        if not self._settings.gemini_allow_danger:
            raise WorkFailed("config", "Gemini jobs are refused: set DELEGATE_GEMINI_ALLOW_DANGER=1 to allow them")
        program = needed_program(self._settings.agy_bin, self._settings, job, "DELEGATE_AGY_BIN").resolve()
        check_git_settings(job.workdir)
        jail = self._jail(job, program)
        try:
            confiner, walls = jail_confiner(jail), jail_walls(jail)
            env = environment_of(job, self._settings, extra={"HOME": str(jail.home)})
            self._try(jail, confiner, walls, env)
        except BaseException:
            _remove_home(jail)
            raise
        write_private(temp_of(job) / "task.md", job.task)
        return Command(
            argv=(str(program), *_arguments(job)),
            env=env,
            confiner=confiner,
            walls=walls,
            confined_by=confiner.name,
            left_behind=(jail.home,),
        )

    def reader(self, job: Job) -> GeminiReader:  # noqa: ARG002  # the interface's
        return GeminiReader()

    def failure(self, ended: Ended, said: Said) -> EndpointError | None:
        """Success is exit code 0 with an answer, with tokens, and without any complaint."""
        if ended.exit_code == 0 and said.complete and said.problem is None and said.answer is not None:
            return None
        if said.problem is None:
            if ended.exit_code == 0:
                return EndpointError("empty_answer", "agy ended with exit code 0 and printed no result")
            return EndpointError("process", f"agy ended with exit code {ended.exit_code} and no word on why")
        otherwise = "process" if ended.exit_code else "empty_answer"
        error = spoken_failure("agy", said.problem, otherwise=otherwise)
        return EndpointError("auth", f"{NOT_READABLE}: {error}") if error.kind == "auth" else error

    def _jail(self, job: Job, program: Path) -> Jail:
        user_home = self._settings.user_home
        if user_home is None:
            raise WorkFailed("config", "HOME is not set, so the login of agy cannot be found")
        jail = Jail(
            workdir=job.workdir,
            home=_cache_folder(self._settings, user_home) / "delegate-agy" / secrets.token_hex(8),
            temp=temp_of(job),
            user_home=user_home,
            program=program,
            states=self._settings.state_dirs,
            readable=job.readable,
            writable=job.writable,
        )
        if not jail.cli.is_dir():
            raise WorkFailed("auth", f"{NOT_READABLE}: run `agy` once in a terminal and log in")
        for folder in jail.state_folders:
            folder.mkdir(mode=0o700, exist_ok=True)
        make_private_home(jail)
        return jail

    def _try(self, jail: Jail, confiner: Confiner, walls: Walls, env: dict[str, str]) -> None:
        """Knock at the jail from inside: what must not be reached is not, and what is needed is."""
        name = f"canary-{secrets.token_hex(8)}"
        outside, state, new = jail.home.parent / name, state_folder(self._settings, "gemini") / name, f"{name}.new"
        session = jail.home / ".gemini" / "antigravity-cli"
        words = map(str, (outside, session, state, jail.workdir, jail.home.parent / new))
        try:
            for canary in (outside, state):
                write_private(canary, "not for the jail")
            done = run(
                ("/bin/sh", "-c", _TRY, "sh", *words),
                cwd=jail.workdir,
                env=env,
                timeout_seconds=_TRY_SECONDS,
                confiner=confiner,
                walls=walls,
            )
            got_out = (jail.home.parent / new).exists()  # inside, the file may seem to be there
        finally:
            for file in (outside, state, jail.home.parent / new):
                file.unlink(missing_ok=True)
        if done.exit_code == 4:
            raise WorkFailed("auth", f"{NOT_READABLE}: run `agy` once in a terminal and log in")
        if done.exit_code != 0 or got_out:
            said = done.stderr.text.strip()[-300:] or "what must be out of reach was reached"
            raise WorkFailed("confinement", f"the jail of agy does not hold here (step {done.exit_code}): {said}")


def _arguments(job: Job) -> list[str]:
    """The task lies in a file that the jail shows: an argument could be read by everybody on the machine."""
    said = f"Your task is in the file {temp_of(job) / 'task.md'}. Read all of it first, then do what it says."
    words = ["-p", said, "--output-format", "json", "--dangerously-skip-permissions", "--sandbox"]
    if job.order.model:
        words += ["--model", job.order.model]
    if job.order.resume:
        words += ["--conversation", job.order.resume]
    return [*words, "--print-timeout", f"{job.order.timeout_seconds + _AFTER_OURS_SECONDS}s"]


def _cache_folder(settings: Settings, user_home: Path) -> Path:
    if sys.platform == "darwin":
        return user_home / "Library" / "Caches"
    chosen = Path(settings.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else user_home / ".cache"


def _remove_home(jail: Jail) -> None:
    for link in (jail.home / ".gemini", jail.home / "Library" / "Keychains"):
        link.unlink(missing_ok=True)
    for folder in (jail.home / "Library", jail.home):
        if folder.is_dir():
            folder.rmdir()
