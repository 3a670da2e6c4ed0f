"""Texts that both faces say in the same words: the tokens line, the way to watch, and what may be done next."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from delegation.home import Home
from delegation.receipt import Cost, Receipt, Usage
from delegation.records.wording import money_behind

WATCH_HINT = (
    "The work goes on without you. To be woken when it ends, run `watch` in the background (it exits 0 when the change "
    "is accepted or the question answered, 1 otherwise); or call poll_delegations."
)


def tokens_line(usage: Usage | None, cost: Cost) -> str | None:
    """`[tokens: N prompt / N completion / N total ($cost)]`, or None where the endpoint never said.

    A flat plan says so, an estimate is marked as one, and an unknown cost prints no money.
    """
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    total = usage.input_tokens + usage.output_tokens
    money = money_behind(cost)
    return f"[tokens: {usage.input_tokens} prompt / {usage.output_tokens} completion / {total} total{money}]"


JOBS_WATCH_HINT = (
    "Start `watch` at once in the background (Monitor, or Bash with run_in_background): it prints a line as each job "
    "ends and then exits, which is what wakes you. 0: all done; 1: one was not; 2: an unknown id; 3: out of time."
)

PLUGIN_WATCH_HINT = (
    "The plugin's hook wakes this session when they have ended: go on, or end your turn. Only a session that ends with "
    "your answer (claude -p) has to start `watch` at once in the background."
)


def jobs_watch_hint(environ: Mapping[str, str]) -> str:
    """What to do about `watch`: a server that the plugin of Claude Code started has a hook beside it that waits."""
    return PLUGIN_WATCH_HINT if environ.get("CLAUDE_PLUGIN_ROOT") else JOBS_WATCH_HINT


def watch_command(home: Home, delegation_id: str) -> str:
    """A shell command that ends when the delegation does; it names our home, which the shell may not know."""
    return _command(home, "delegate", "mcp_entry", "wait", delegation_id)


def night_watch_command(home: Home, night_id: str) -> str:
    """The same for a night; it prints the report."""
    return _command(home, "delegate", "mcp_entry", "night", "--show", night_id, "--wait")


def comparison_watch_command(home: Home, comparison_id: str) -> str:
    """The same for a comparison: it ends when that does."""
    return _command(home, "delegate", "mcp_entry", "compare", comparison_id)


def jobs_watch_command(home: Home, ids: Sequence[str]) -> str:
    """The same for jobs of command-line agents, in their words and with their exit codes."""
    return _command(home, "delegate-wait", "mcp_entry.terminal.delegate_wait", *ids)


def _command(home: Home, script: str, module: str, *words: str) -> str:
    program = Path(sys.executable).parent / script
    begin = [str(program)] if program.is_file() else [sys.executable, "-m", module]
    return f"DELEGATE_HOME={shlex.quote(str(home.root))} {shlex.join([*begin, *words])}"


def verdict_line(receipt: Receipt) -> str:
    """One sentence: what was judged, and how it came out."""
    checked = receipt.verification
    match receipt.outcome:
        case "verified" if checked:
            return f"{checked.command!r} accepts the change{_base(receipt)}"
        case "refuted" if checked:
            return f"{checked.command!r} does not accept the change{_base(receipt)}"
        case "unverified" if checked:
            return f"{checked.command!r} gave no verdict: {checked.reason or 'see the logs'}"
        case "unverified" | "verified" | "refuted":
            return "there is a change; no verify command was given"
        case "no_change":
            return "the worker changed nothing"
        case "answered":
            return "the question is answered"
        case "failed":
            return f"{receipt.failure_kind}: {receipt.failure_message or 'no reason is known'}"
        case "cancelled":
            return receipt.failure_message or "somebody ended it; what it did until then is kept"


def _base(receipt: Receipt) -> str:
    base = receipt.verification.base if receipt.verification else None
    return f" (on the base: {base.verdict})" if base else ""
