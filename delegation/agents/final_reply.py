"""A reply without calls: the end of the run, or a reason to ask once more."""

import re
from dataclasses import dataclass

from delegation.agents.prompt import NUDGE_ANNOUNCED, NUDGE_CUT, NUDGE_EMPTY
from delegation.agents.resume import State
from delegation.agents.stop_reasons import Broken, Finished
from delegation.card import Expects
from delegation.chat.messages import Reply
from delegation.errors import WorkFailed

_LAST_CHARACTERS = 400
_INTENT = re.compile(
    r"\b(?:i['’]ll|i will|i am going to|i['’]m going to|i am about to|let me|let['’]s|next,? i|"
    r"now i (?:need|want|have) to)\b"
    r"(?! (?:know|not|leave|stop|finish here))",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Nudge:
    """A question that costs one more turn. `about` is the text that counts if nothing better comes."""

    reason: str
    text: str
    about: str | None = None


def nudge_for(reply: Reply, state: State, expects: Expects, *, may_ask: bool) -> Nudge:
    """The question to ask. Raises the stop when there is none: Finished with the text that counts, or Broken."""
    text, cut = reply.text.strip(), reply.stop == "length"
    if cut and may_ask:
        return Nudge("cut", NUDGE_CUT)
    if not text and may_ask and "empty" not in state.nudge_reasons:
        return Nudge("empty", NUDGE_EMPTY)
    if not text:
        raise Broken(WorkFailed("empty_answer", "the model ended with an empty message"))
    if cut:
        raise Broken(WorkFailed("truncated", "the model's last message was cut at the output limit"))
    if may_ask and "announced" not in state.nudge_reasons and announces_work(text):
        return Nudge("announced", NUDGE_ANNOUNCED, about=text)
    raise _finished(text, state, expects)


def announces_work(text: str) -> bool:
    """Whether the end of the text says what comes next: a colon with nothing after it, or a sentence of intent."""
    end = text.strip()[-_LAST_CHARACTERS:]
    last = re.split(r"(?<=[.!?])\s+|\n+", end)[-1]
    return end.endswith((":", "…")) or _INTENT.search(last) is not None


def _finished(text: str, state: State, expects: Expects) -> Finished:
    """What was said before the question stays the text that counts when the reply to it brought no work."""
    reason = "answered" if expects == "answer" else "submitted"
    if state.nudged is not None and state.turns == state.announced_turn + 1:
        return Finished(reason, state.nudged, text)
    return Finished(reason, text, None)
