"""The result of a run from its state, and back from the log of one that is over."""

from dataclasses import asdict

from delegation.agents.results import AgentResult
from delegation.agents.resume import State
from delegation.agents.stop_reasons import Finished, Stop
from delegation.card import Expects
from delegation.chat.messages import Text
from delegation.masking import NOTHING_SECRET, Mask
from delegation.receipt import Cost, Usage

LONGEST_ANSWER, LONGEST_STATEMENT = 1_000_000, 50_000
"""Characters of an answer that was asked for, and of what a model says about its work."""


def result_of(state: State, stop: Stop, expects: Expects, *, resumed: bool, mask: Mask = NOTHING_SECRET) -> AgentResult:
    """How a run ended, with what it came to. What the model says is masked as it is in the log."""
    spending = state.spending
    said = None if stop.text is None else mask.text(stop.text)
    return AgentResult(
        stop_reason=stop.reason,
        failure=stop.failure,
        answer=_bounded(said, LONGEST_ANSWER) if expects == "answer" else None,
        claim=_bounded(said, LONGEST_STATEMENT) if expects == "change" else None,
        **asdict(state.counts),
        usage=spending.usage,
        cost=spending.cost,
        costs=spending.costs,
        response_model=state.response_model,
        fallback_note=state.fallback_note,
        nudge_reply=stop.nudge_reply if isinstance(stop, Finished) else None,
        last_text=_bounded(mask.text(last_text(state) or "") or None, LONGEST_STATEMENT),
        elapsed_seconds=state.elapsed_seconds,
        resumed=resumed,
        warnings=tuple(state.warnings),
    )


def _bounded(text: str | None, longest: int) -> str | None:
    """The receipt travels to clients and databases; the log has the whole."""
    if text is None or len(text) <= longest:
        return text
    return f"{text[:longest]}\n[{len(text) - longest} more characters are in the transcript]"


def last_text(state: State) -> str | None:
    """The last thing the model said in words, as it said it."""
    texts = (
        "".join(block.text for block in message.blocks if isinstance(block, Text)).strip()
        for message in reversed(state.messages)
        if message.role == "assistant"
    )
    return next((text for text in texts if text), None)


def recorded_end(state: State) -> AgentResult | None:
    """The result of a run that the model finished by itself, None for one that may go on."""
    end = state.end
    if end is None or end["stop_reason"] not in ("submitted", "answered"):
        return None
    return AgentResult(
        stop_reason=end["stop_reason"],
        failure=None,
        answer=end["answer"],
        claim=end["claim"],
        **{name: end[name] for name in asdict(state.counts)},
        usage=Usage(**end["usage"]),
        cost=Cost(**end["cost"]),
        costs=tuple(Cost(**cost) for cost in end["costs"]),
        response_model=end["response_model"],
        fallback_note=end.get("fallback_note"),
        nudge_reply=end["nudge_reply"],
        last_text=end["last_text"],
        elapsed_seconds=end["elapsed_seconds"],
        resumed=True,
        warnings=tuple(end["warnings"]),
    )
