"""The events of a streamed answer as data, whatever its chunk boundaries, line ends and comments."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
from httpx_sse import EventSource

from delegation.chat.draft import StreamBroken

DONE = "[DONE]"


def events(response: httpx.Response) -> Iterator[Any]:
    """Each event's data as JSON, `DONE` for the end marker. Comments, also those wrapped as data, are left out.

    An event name that the data does not repeat as its `type` is added. Raises StreamBroken for data that is no JSON.
    """
    response.headers["content-type"] = "text/event-stream; charset=utf-8"  # some servers say text/plain
    for event in EventSource(response).iter_sse():
        data = event.data.strip()
        if data and not data.startswith(":"):
            yield DONE if data == DONE else _named(_json(data), event.event)


def _json(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise StreamBroken(f"a piece of the stream is not JSON ({data[:80]!r})") from error


def _named(data: Any, name: str) -> Any:
    if isinstance(data, dict) and name not in ("", "message") and "type" not in data:
        return {**data, "type": name}
    return data
