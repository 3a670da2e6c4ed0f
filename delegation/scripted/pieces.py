"""What the wire formats share: frames of a stream, ids, texts in pieces, and arguments as a turn wants them spelled."""

import json
import uuid
from typing import Any

from delegation.scripted.turns import Call, Turn


def frame(data: Any, event: str | None = None) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "") + f"data: {text}\n\n"


def pieces(text: str, size: int = 12) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def new_id(prefix: str) -> str:
    return f"{prefix}{uuid.uuid4().hex[:10]}"


def arguments(turn: Turn, call: Call) -> Any:
    """What stands where the call's arguments belong."""
    text = call.raw if call.raw is not None else json.dumps(call.input)
    match turn.fault:
        case "truncated_args":
            return text[:-4]
        case "dict_args":
            return dict(call.input)
        case "empty_args":
            return ""
        case "null_args":
            return None
        case _:
            return text
