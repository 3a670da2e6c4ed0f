"""`python -m delegation.scripted SCRIPT [--port N] [--log FILE]`: a model on loopback that says what a file holds.

To try the program, or a setting of it, without a model. What a script may hold is told by `Script` and `Turn`.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from delegation.scripted.endpoint import ScriptedEndpoint
from delegation.scripted.turns import Script


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 a script that cannot be used or a port that is taken."""
    parser = argparse.ArgumentParser(prog="python -m delegation.scripted", description="A model that follows a script.")
    parser.add_argument("script", type=Path, help="JSON: a list of turns, or an object with `turns`, `by`, `models`")
    parser.add_argument("--port", type=int, default=8099, help="on loopback; 0 takes a free one (default %(default)s)")
    parser.add_argument("--log", type=Path, help="a file that gets a line of JSON for each request")
    given = parser.parse_args(argv)
    try:
        script = Script.read(given.script)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return _refused(f"{str(given.script)!r} is not JSON: {place}: {error.msg}")
    except (OSError, ValueError, TypeError, KeyError) as error:
        return _refused(f"{str(given.script)!r} is no script: {error}")
    try:
        endpoint = ScriptedEndpoint(script, port=given.port, log=given.log)
    except (OSError, OverflowError) as error:
        return _refused(f"cannot serve {str(given.script)!r} on port {given.port}: {error}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: endpoint.closing.set())
    with endpoint:
        sys.stdout.write(f"{endpoint.base_url} serves {', '.join(script.models)}\n")
        sys.stdout.flush()
        endpoint.closing.wait()
    return 0


def _refused(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
