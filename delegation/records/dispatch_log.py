"""One line of JSON for each delegation that ended: numbers and names only, never a task, an answer or a path.

For whoever wants to watch many of them without reading records. It is rotated once, at 8 MiB.
"""

import json
import os
from pathlib import Path

from delegation.receipt import Receipt

LONGEST_BYTES = 8 * 1024 * 1024
NAME = "dispatch.jsonl"


def log_dispatch(folder: Path, receipt: Receipt, *, tool: str, last_text: str | None) -> None:
    """Append the line. Best effort: a log that cannot be written fails nothing."""
    path = folder / NAME
    try:
        if path.exists() and path.stat().st_size >= LONGEST_BYTES:
            path.replace(path.with_suffix(".1.jsonl"))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab", buffering=0) as stream:
            stream.write(line_of(receipt, tool=tool, last_text=last_text))  # one write: lines never mix
    except OSError:
        return


def line_of(receipt: Receipt, *, tool: str, last_text: str | None) -> bytes:
    """`hollow_success`: it ended well and the last turn had no text."""
    usage, cost = receipt.usage, receipt.cost
    facts = {
        "time": receipt.ended_at.isoformat() if receipt.ended_at else None,
        "id": receipt.id,
        "tool": tool,
        "model": receipt.model_used or receipt.model_requested,
        "failed_over_from": receipt.failed_over_from,
        "bucket": receipt.bucket,
        "lane": receipt.lane,
        "outcome": receipt.outcome,
        "failure_kind": receipt.failure_kind,
        "flags": list(receipt.flags),
        "stop_reason": receipt.stop_reason,
        "turns": receipt.turns,
        "tool_calls": receipt.tool_calls,
        "malformed_calls": receipt.malformed_calls,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "requests": usage.requests if usage else None,
        "cost_usd": cost.amount_usd,
        "cost_kind": cost.kind,
        "seconds": receipt.timings.total_seconds,
        "hollow_success": receipt.outcome not in ("failed", "cancelled") and not (last_text or "").strip(),
    }
    return json.dumps(facts, ensure_ascii=True).encode() + b"\n"
