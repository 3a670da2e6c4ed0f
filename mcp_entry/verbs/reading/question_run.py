"""A question as a flow run: its process is forked by the launcher at once, answers first, and records itself."""

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from delegation.errors import Cancelled, DelegateError, StackError
from delegation.layout import pipeline_directory
from delegation.processes.identity import process_id
from delegation.reading.kept import Kept, Later, with_references
from delegation.reading.labels import unrecorded
from delegation.reading.question import Answer, Question
from delegation.settings import Settings
from delegation.stack_state import MARK, StackState

if TYPE_CHECKING:  # loaded in a thread
    from mcp_entry.verbs.reading.slots import Connections

QUESTION_VARIABLE = "DELEGATE_QUESTION"
_FIRST_LOOKS, _FIRST_SECONDS, _LOOK_SECONDS = 200, 0.002, 0.01
_GIVEN_UP_SECONDS, _QUICK_SECONDS = 0.25, 0.3
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_PREFIXES = ("LC_", "XDG_", "DELEGATE_TEST_")


class NotBegun(StackError):
    """Nobody was asked: the process could not be started, or ended before it began."""


class _GivenUp(Cancelled):
    """By whoever asked, while nobody has answered."""


@dataclass
class Runs:
    """Questions as flow runs of one running stack."""

    settings: Settings
    state: StackState

    def answer(self, question: Question, keys: Mapping[str, str], cancelled: Event | None = None) -> Answer:
        """The answer, as soon as it is there; the process tells the server the rest by itself.

        Raises NotBegun, StackError where the process ended without a word, Cancelled, and what the reader failed of.
        """
        kept = Kept(self.settings.home)
        kept.keep(with_references(self.settings.home, question, keys))
        try:
            child = self._started(question.id)
        except NotBegun:
            kept.remove(question.id)
            raise
        try:
            answer = _answer_of(child, kept, question.id, cancelled or Event())
        except (_GivenUp, KeyboardInterrupt):
            kept.give_up(question.id)
            child.terminate()
            raise  # the process removes the files once it has ended the request
        except BaseException:
            kept.remove(question.id)
            raise
        finally:
            Thread(target=child.wait, name="reading-run", daemon=True).start()  # it ends by itself, and is reaped
        kept.remove(question.id)
        kept.clear()
        return answer

    def beside(
        self,
        question: Question,
        keys: Mapping[str, str],
        cancelled: Event | None,
        answer: Callable[[Event], Answer],
    ) -> Answer:
        """The answer that this process makes, while one of the launcher's records it. Raises what `answer` raises."""
        kept, given_up = Kept(self.settings.home), cancelled or Event()
        kept.keep(with_references(self.settings.home, question, keys))
        kept.begin(question.id, process_id(os.getpid()))
        outcome: list[Answer | DelegateError] = [StackError("it ended without a word")]
        done = Event()
        Thread(target=_pass_on, args=(kept, question.id, given_up, done), name="given-up", daemon=True).start()
        Thread(target=self._record, args=(kept, question, outcome, done), name="recording").start()
        try:
            found = answer(given_up)
            outcome[:] = [found]
        except DelegateError as error:
            outcome[:] = [error]
            raise
        finally:
            _hand_over(kept, question.id, outcome[0])
            done.set()
        return found

    def _record(self, kept: Kept, question: Question, outcome: "list[Answer | DelegateError]", done: Event) -> None:
        """A quick answer comes first, a slow one is recorded while the reader thinks. At the end of this process it is
        waited for until the other one is started, and no longer."""
        done.wait(_QUICK_SECONDS)
        child = None
        with suppress(NotBegun):
            child = self._started(question.id)
        ending = (kept, child, question, outcome, done, Later(self.settings.home))
        Thread(target=_see_recorded, args=ending, name="recorded", daemon=True).start()

    def _started(self, question_id: str) -> "subprocess.Popen[bytes]":
        """The launcher's client: small, and it ends as the process does. Its output goes to the log of the run."""
        try:
            return subprocess.Popen(
                self.state.launcher_command, env=self._environment(question_id), cwd=self.settings.home.stack,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NotBegun(f"the launcher's client cannot be started: {error}") from error

    def _environment(self, question_id: str) -> dict[str, str]:
        state, given = self.state, self.settings.environ
        kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
        home = {"DELEGATE_HOME": given["DELEGATE_HOME"]} if given.get("DELEGATE_HOME") else {}
        if not state.flow_settings:
            raise NotBegun("the stack that runs is of an older version: `delegate up` renews it")
        ours = {"PYTHONPATH": str(pipeline_directory()), "PYTHONUNBUFFERED": "1", QUESTION_VARIABLE: question_id}
        mark = {MARK: state.mark} if state.mark else {}  # without the launcher it is the front door's child
        return {**kept, **home, **ours, **mark, **state.flow_settings}


class Connecting:
    """Connections that are opened in a thread: their libraries take half a second to load."""

    def __init__(self, state: StackState) -> None:
        self.state = state
        self.connections: Connections | None = None
        self._thread = Thread(target=self._open, name="connecting", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        if self.connections:
            self.connections.close()

    def _open(self) -> None:
        from mcp_entry.verbs.reading.slots import Connections

        connections = Connections(self.state)
        connections.warm_up()
        self.connections = connections


def _hand_over(kept: Kept, question_id: str, outcome: "Answer | DelegateError") -> None:
    """To the recording process. A full disk takes no answer from whoever waits: that process sees the question gone."""
    try:
        kept.settle(question_id, outcome)
    except StackError:
        kept.remove(question_id)


def _pass_on(kept: Kept, question_id: str, given_up: Event, done: Event) -> None:
    """Somebody pressed Cancel in the UI, says the recording process."""
    while not done.wait(_GIVEN_UP_SECONDS):
        if kept.is_given_up(question_id):
            given_up.set()
            return


def _see_recorded(
    kept: Kept,
    child: "subprocess.Popen[bytes] | None",
    question: Question,
    outcome: "list[Answer | DelegateError]",
    done: Event,
    later: Later,
) -> None:
    """A process that could not record it leaves that to the next question's."""
    if child is not None:
        child.wait()
    done.wait()
    if kept.is_under_way(question.id):
        later.add(unrecorded(question, outcome[0], is_counted=True))
        kept.remove(question.id)
    kept.clear()


def _answer_of(child: "subprocess.Popen[bytes]", kept: Kept, question_id: str, cancelled: Event) -> Answer:
    looks = 0
    while True:
        ended = child.poll() is not None  # looked at first: what it wrote before it ended is seen below
        if (answer := kept.outcome(question_id)) is not None:
            return answer
        if ended:
            what = f"the process of the question ended without an answer (exit code {child.returncode})"
            raise (StackError if kept.has_begun(question_id) else NotBegun)(f"{what}: see `delegate doctor`")
        if cancelled.wait(_FIRST_SECONDS if looks < _FIRST_LOOKS else _LOOK_SECONDS):
            raise _GivenUp("the question was cancelled")
        looks += 1
