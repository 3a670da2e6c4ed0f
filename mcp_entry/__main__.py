"""The program `delegate`: one wiring for the terminal and for the MCP server, and the outermost edge for errors."""

import os
import sys
import traceback
from collections.abc import Sequence

from delegation.errors import DelegateError, StackNotRunning
from delegation.files import cannot_write, drop_output, is_full
from mcp_entry.quick_start import start_quickly
from mcp_entry.terminal.exits import CANNOT, NOT_RUNNING, OK, OTHER_OUTCOME, STOPPED_WAITING, NotAnswered


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code. Only results go to stdout, and no traceback is shown unasked."""
    if argv is None:
        start_quickly()
    words = list(sys.argv[1:] if argv is None else argv)
    with_traceback = "--traceback" in words or bool(os.environ.get("DELEGATE_TRACEBACK"))
    words = [word for word in words if word != "--traceback"]
    try:
        return _run(words)
    except KeyboardInterrupt:
        return _said("interrupted", STOPPED_WAITING)
    except BrokenPipeError:
        drop_output(sys.stdout)
        return OK
    except NotAnswered as error:
        return _not_answered(error, with_traceback=with_traceback)
    except Exception as error:
        if with_traceback:
            traceback.print_exc()
        return _explained(error)


def _run(words: list[str]) -> int:
    if words[:1] == ["mcp"] and (len(words) == 1 or (len(words) == 3 and words[1] in ("--config", "-c"))):
        from mcp_entry.mcp_server.stdio import serve  # first of all: it guards stdout from then on

        serve(words[2] if len(words) == 3 else None)
    from mcp_entry.terminal.app import run

    return run(words)


def _not_answered(error: NotAnswered, *, with_traceback: bool) -> int:
    """One line; with --traceback the worker's stack first: it says more than this program's."""
    if with_traceback:
        sys.stderr.write(f"{error.stack().rstrip()}\n")
    sys.stderr.write(f"{error}\n")
    return OTHER_OUTCOME


def _explained(error: Exception) -> int:
    if isinstance(error, StackNotRunning):
        return _said(str(error), NOT_RUNNING)
    if isinstance(error, DelegateError):
        return _said(str(error), CANNOT)
    if isinstance(error, OSError) and is_full(error):
        return _said(str(cannot_write(error)), CANNOT)
    return _said(f"internal error, {type(error).__name__}: {error} (run again with --traceback to see where)", CANNOT)


def _said(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: the interpreter must not fail on it again when it ends
        drop_output(sys.stdout)
    sys.stderr.write(f"delegate: {' '.join(message.split())}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
