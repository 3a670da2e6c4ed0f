"""Reads what `agy --output-format json` prints: one object at the end, in which some versions leave raw newlines."""

import json
import re
from typing import Any

from delegation.harnesses.harness import Progress, Said, Stream, count_in, word_in
from delegation.harnesses.sanitising import one_line
from delegation.receipt import Usage

MOST_CHARACTERS = 8 * 1024 * 1024
_STDERR_CHARACTERS = 16_000
_SPEAKS_OF_FAILURE = re.compile(r"^(?:AGY_ERROR:|\[agy\] print timeout|error:|\[API Error)", re.I)
_COUNTED = ("input_tokens", "output_tokens", "total_tokens")


class GeminiReader:
    """Keeps both streams, bounded, and reads them when they are over."""

    def __init__(self) -> None:
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._stdout_characters = self._stderr_characters = 0

    @property
    def busy(self) -> bool:
        """It says nothing until its end, so silence means nothing."""
        return True

    def line(self, stream: Stream, text: str) -> Progress | None:
        if stream == "stdout":
            self._stdout_characters += len(text) + 1
            if self._stdout_characters <= MOST_CHARACTERS:
                self._stdout.append(text)
            return None
        self._stderr_characters += len(text) + 1
        if self._stderr_characters <= _STDERR_CHARACTERS:
            self._stderr.append(text)
        return Progress("warning", one_line(text)) if _SPEAKS_OF_FAILURE.match(text) else None

    def said(self) -> Said:
        result = _result("\n".join(self._stdout))
        complaints = [text for text in self._stderr if _SPEAKS_OF_FAILURE.match(text)]
        if result is None:
            cut = "its result is no whole JSON object" if "".join(self._stdout).strip() else None
            return Said(problem="\n".join(complaints) or "\n".join(self._stderr[-5:]) or cut)
        answer = result.get("response")
        return Said(
            answer=answer if isinstance(answer, str) and answer.strip() else None,
            session_id=word_in(result.get("conversation_id")) or word_in(result.get("session_id")),
            usage=_usage(result.get("usage")),
            turns=count_in(result.get("num_turns")) or 0,
            warnings=_denied(result),
            problem=_problem(result, complaints, self._stderr),
            complete=True,
        )


def _result(text: str) -> dict[str, Any] | None:
    """The last JSON object of the text; what stands before it is noise of the program's own."""
    for start in _starts(text):
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            inner = found.get("result") if found.get("event") == "result" else None
            return inner if isinstance(inner, dict) else found
    return None


def _starts(text: str) -> list[int]:
    """Where the object may begin: the whole text, else at lines that open one, the first of them first."""
    stripped = len(text) - len(text.lstrip())
    return [stripped, *(match.start() for match in re.finditer(r"^\{", text, re.M))][:50]


def _problem(result: dict[str, Any], complaints: list[str], stderr: list[str]) -> str | None:
    """Why it is no success, in its own words; success needs all of: SUCCESS, an answer, tokens, and no complaint."""
    status = str(result.get("status") or "SUCCESS").upper()
    error = result.get("error")
    said = "\n".join(part for part in (_words(error), *complaints) if part)
    if status != "SUCCESS" or error:
        return said or f"it ended with status {status}"
    if said:
        return said
    if not str(result.get("response") or "").strip():
        denied = _denied(result)
        return "; ".join(denied) if denied else "\n".join(stderr[-5:]) or "an empty answer"
    if _all_zero(result.get("usage")):
        return "it used no tokens, so no model answered"
    return None


def _words(error: Any) -> str:
    if isinstance(error, dict):
        return " ".join(str(error[key]) for key in ("message", "code", "type", "status") if error.get(key))
    return "" if error is None else str(error)


def _denied(result: dict[str, Any]) -> tuple[str, ...]:
    actions = result.get("denied_actions")
    if not isinstance(actions, list) or not actions:
        return ()
    names = [
        str(each.get("display_name") or each.get("action")) if isinstance(each, dict) else str(each) for each in actions
    ]
    return (one_line(f"it was denied: {', '.join(names)}"),)


def _all_zero(usage: Any) -> bool:
    """Usage that was never told is unknown; told as nothing at all, no model was at work."""
    if not isinstance(usage, dict):
        return False
    counted = [count_in(usage.get(name)) for name in _COUNTED if name in usage]
    return bool(counted) and not any(counted)


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict) or _all_zero(usage):
        return Usage()
    return Usage(
        input_tokens=count_in(usage.get("input_tokens")),
        output_tokens=count_in(usage.get("output_tokens")),
        cached_tokens=count_in(usage.get("cache_read_tokens")),
    )
