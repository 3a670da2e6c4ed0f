"""A question as a flow run: made in Pending, forked by the launcher at once, and ended through it."""

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from delegation.errors import Cancelled, StackError
from delegation.layout import pipeline_directory
from delegation.reading.kept import Kept, with_references
from delegation.reading.labels import run_name_of, shown_parameters, tags_of
from delegation.reading.question import Answer, Question
from delegation.settings import Settings
from delegation.stack_state import StackState
from mcp_entry.prefect_api import READING, Deployment, NewRun, PrefectApi, process_settings

_LOOK_SECONDS = 0.01
_ASK_SERVER_SECONDS = 2.0
_ENDING_SECONDS = 30.0
_IMPATIENT_SECONDS = 3.0
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_PREFIXES = ("LC_", "XDG_", "DELEGATE_TEST_")


class NotBegun(StackError):
    """Nobody was asked: the run could not be made, or its process ended before it began."""


@dataclass
class Runs:
    """Questions as flow runs of one running stack."""

    settings: Settings
    state: StackState
    _deployment: Deployment | None = None

    def answer(self, question: Question, keys: Mapping[str, str], cancelled: Event | None = None) -> Answer:
        """The answer, as soon as it is there; the run tells the server the rest by itself.

        Raises NotBegun, StackError where the process ended without a word, Cancelled, and what the flow was told.
        """
        kept = Kept(self.settings.home)
        kept.clear()
        kept.keep(with_references(self.settings.home, question, keys))
        try:
            with self._api() as api:
                return self._awaited(api, kept, question, cancelled or Event())
        finally:
            kept.remove(question.id)

    def _api(self) -> PrefectApi:
        state = self.state
        return PrefectApi(
            state.api_url, auth_string=state.auth_string, api_key=state.api_key, patience_seconds=_IMPATIENT_SECONDS
        )

    def _awaited(self, api: PrefectApi, kept: Kept, question: Question, cancelled: Event) -> Answer:
        run_id = self._new_run(api, question)
        child = self._started(run_id)
        try:
            answer = _answer_of(child, api, run_id, kept, question.id, cancelled)
        except (Cancelled, KeyboardInterrupt) as error:
            _cancel(child, api, run_id, str(error))
            raise
        except StackError as error:
            _bury(child, api, run_id, str(error))
            raise
        finally:
            Thread(target=child.wait, name="reading-run", daemon=True).start()  # it ends by itself, and is reaped
        return answer

    def _new_run(self, api: PrefectApi, question: Question) -> str:
        try:
            self._deployment = self._deployment or api.deployment(READING)
            run = NewRun(
                name=run_name_of(question), parameters=shown_parameters(question), tags=tags_of(question),
                work_queue="", idempotency_key=question.id, pending=True,
            )  # fmt: skip
            return api.create_flow_run(self._deployment, run).id
        except StackError as error:
            raise NotBegun(str(error)) from error

    def _started(self, run_id: str) -> "subprocess.Popen[bytes]":
        """The launcher's client: small, and it ends as the run does. Its output goes to the log of the run."""
        home = self.settings.home
        try:
            return subprocess.Popen(
                self.state.launcher_command, env=self._environment(run_id), cwd=home.stack, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NotBegun(f"the launcher's client cannot be started: {error}") from error

    def _environment(self, run_id: str) -> dict[str, str]:
        state, given = self.state, self.settings.environ
        kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
        home = {"DELEGATE_HOME": given["DELEGATE_HOME"]} if given.get("DELEGATE_HOME") else {}
        prefect = process_settings(
            run_id, api_url=state.api_url, auth_string=state.auth_string, api_key=state.api_key,
            prefect_home=state.prefect_home,
        )  # fmt: skip
        return {**kept, **home, "PYTHONPATH": str(pipeline_directory()), "PYTHONUNBUFFERED": "1", **prefect}


def _answer_of(
    child: "subprocess.Popen[bytes]", api: PrefectApi, run_id: str, kept: Kept, question_id: str, cancelled: Event
) -> Answer:
    ask_server_at = time.monotonic() + _ASK_SERVER_SECONDS
    while True:
        ended = child.poll() is not None  # looked at first: what it wrote before it ended is seen below
        if (answer := kept.outcome(question_id)) is not None:
            return answer
        if ended:
            what = f"the process of the question ended without an answer (exit code {child.returncode})"
            raise (StackError if kept.has_begun(question_id) else NotBegun)(f"{what}: see `delegate doctor`")
        if cancelled.is_set() or (time.monotonic() > ask_server_at and _is_being_cancelled(api, run_id)):
            raise Cancelled("the question was cancelled")
        if time.monotonic() > ask_server_at:
            ask_server_at = time.monotonic() + _ASK_SERVER_SECONDS
        time.sleep(_LOOK_SECONDS)


def _is_being_cancelled(api: PrefectApi, run_id: str) -> bool:
    """Whether somebody pressed Cancel in the UI; the worker does not know of this run."""
    try:
        run = api.flow_run(run_id)
    except StackError:
        return False
    return run is not None and run.state in ("CANCELLING", "CANCELLED")


def _cancel(child: "subprocess.Popen[bytes]", api: PrefectApi, run_id: str, message: str) -> None:
    """End the run's process through the launcher's client, and say so on the server where nobody else can."""
    with suppress(StackError, subprocess.TimeoutExpired):
        api.cancel(run_id)
    if child.poll() is None:
        child.terminate()
    with suppress(StackError, subprocess.TimeoutExpired):
        child.wait(_ENDING_SECONDS)
        api.end(run_id, "CANCELLED", "Cancelled", message or "given up")


def _bury(child: "subprocess.Popen[bytes]", api: PrefectApi, run_id: str, message: str) -> None:
    """A run whose process is gone without a word would be shown as running for ever."""
    if child.poll() is not None:
        with suppress(StackError):
            api.end(run_id, "CRASHED", "Crashed", message)
