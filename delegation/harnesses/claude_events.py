"""Reads the JSON lines of `claude -p --output-format stream-json`."""

from typing import Any

from delegation.harnesses.harness import Progress, Said, Stream, count_in, word_in
from delegation.harnesses.lines import event_in
from delegation.harnesses.sanitising import one_line
from delegation.receipt import Usage

_MOST_STDERR = 20


class ClaudeReader:
    """The last line, of type `result`, is its own account; usage there is of the whole run."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._session_id: str | None = None
        self._model: str | None = None
        self._text: str | None = None
        self._result: dict[str, Any] | None = None
        self._turns = self._tool_calls = self._retries = self._failures = 0
        self._shells: set[str] = set()
        self._last_shell_failed: bool | None = None
        self._retry_said: str | None = None
        self._stderr: list[str] = []

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def line(self, stream: Stream, text: str) -> Progress | None:
        if stream == "stderr":
            if text.strip() and not text.startswith("[claude-code:") and len(self._stderr) < _MOST_STDERR:
                self._stderr.append(text)
            return None
        event = event_in(text)
        return None if event is None else self._event(event)

    def said(self) -> Said:
        result = self._result or {}
        answer = result.get("result") if not result.get("is_error") else None
        return Said(
            answer=answer if isinstance(answer, str) and answer.strip() else None if self._result else self._text,
            session_id=self._session_id,
            usage=_usage(result.get("usage")),
            response_model=self._model,
            turns=count_in(result.get("num_turns")) or self._turns,
            tool_calls=self._tool_calls,
            last_command_exit=None if self._last_shell_failed is None else int(self._last_shell_failed),
            command_failures=self._failures,
            retries=self._retries,
            warnings=_denials(result),
            problem=self._problem(),
            complete=self._result is not None,
        )

    def _problem(self) -> str | None:
        result = self._result
        if result is None:
            return self._retry_said or "\n".join(self._stderr) or None
        if not result.get("is_error") and result.get("subtype") == "success":
            return None
        status = result.get("api_error_status")
        words = [str(result.get("result") or result.get("subtype") or "")]
        words += [str(error) for error in _list(result.get("errors"))]
        return f"{f'status {status}: ' if status else ''}{' '.join(words)}"

    def _event(self, event: dict[str, Any]) -> Progress | None:
        self._session_id = word_in(event.get("session_id")) or self._session_id
        match event.get("type"), event.get("subtype"):
            case "system", "init":
                return Progress("started", f"session {self._session_id}")
            case "system", "api_retry":
                self._retries += 1
                self._retry_said = f"status {event.get('error_status')} {event.get('error')}"
                return Progress("retry", one_line(self._retry_said))
            case "assistant", _:
                return self._assistant(event.get("message") or {})
            case "user", _:
                return self._results(event.get("message") or {})
            case "result", _:
                self._result = event
            case _:
                pass
        return None

    def _assistant(self, message: dict[str, Any]) -> Progress | None:
        told = None
        model = message.get("model")
        if model and model != "<synthetic>":
            self._model = str(model)
        for block in _blocks(message):
            if block.get("type") == "text" and str(block.get("text") or "").strip():
                self._text = str(block["text"])
                told = Progress("text", one_line(self._text))
            elif block.get("type") == "tool_use":
                told = self._tool(block)
        self._turns += 1
        return told

    def _tool(self, block: dict[str, Any]) -> Progress:
        key, given = str(block.get("id")), block.get("input")
        self._tool_calls += 1
        self._open.add(key)
        if block.get("name") == "Bash":
            self._shells.add(key)
        what = given.get("command") or given.get("file_path") if isinstance(given, dict) else None
        return Progress("tool", one_line(f"{block.get('name')} {what or ''}"))

    def _results(self, message: dict[str, Any]) -> Progress | None:
        told = None
        for block in _blocks(message):
            if block.get("type") != "tool_result":
                continue
            key, failed = str(block.get("tool_use_id")), block.get("is_error") is True
            self._open.discard(key)
            self._failures += failed and key in self._shells
            if key in self._shells:
                self._last_shell_failed = failed
            told = Progress("tool_done", "failed" if failed else "done")
        return told


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _list(message.get("content")) if isinstance(block, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _denials(result: dict[str, Any]) -> tuple[str, ...]:
    denied = _list(result.get("permission_denials"))
    names = [str(each.get("tool_name")) for each in denied if isinstance(each, dict)]
    return (one_line(f"it was denied: {', '.join(names)}"),) if names else ()


def _usage(value: Any) -> Usage:
    """`input_tokens` there is the part that was not cached; ours counts all of it."""
    if not isinstance(value, dict):
        return Usage()
    names = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens", "output_tokens")
    cached, made, fresh, output = (count_in(value.get(name)) for name in names)
    cached, made = cached or 0, made or 0
    if not any((cached, made, fresh, output)):
        return Usage()
    return Usage(
        input_tokens=None if fresh is None else fresh + cached + made, output_tokens=output, cached_tokens=cached
    )
