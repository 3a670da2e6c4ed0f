"""`python -m deployments up | down [--purge] | status | doctor`; with --json one object on stdout, all else on stderr.

Exit codes: 0 done; 1 `up`: the stack runs, and some of its flows cannot be imported;
2 wrong usage, or the stack cannot start; 4 `status` found no running stack.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from delegation.errors import DelegateError, StackNotRunning
from delegation.files import drop_output
from delegation.stack_state import FLOWS_MISSING
from deployments.configuration import Configuration, configuration
from deployments.report import Report


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        report = _COMMANDS[arguments.command](configuration(at_work=arguments.command != "up"), arguments)
    except StackNotRunning as error:
        return _failed(arguments, error, 4)
    except DelegateError as error:
        return _failed(arguments, error, 2)
    try:
        print(json.dumps(report.facts) if arguments.json else report.text, flush=True)  # noqa: T201
    except BrokenPipeError:  # whoever reads has seen enough
        drop_output(sys.stdout)
    return report.exit_code


def _up(here: Configuration, _arguments: argparse.Namespace) -> Report:
    from deployments.starting import start

    state = start(here, _say)
    for warning in state.warnings:
        _say(f"warning: {warning}")
    facts = {"running": True, "ui_url": state.ui_url, "api_url": state.api_url, "warnings": list(state.warnings)}
    code = {"version": state.version, "config_hash": state.config_hash}
    lacks = any(warning.startswith(FLOWS_MISSING) for warning in state.warnings)
    text = f"the stack runs{', but not all of its flows' if lacks else ''}: {state.ui_url}"
    return Report(1 if lacks else 0, {**facts, **code}, text)


def _down(here: Configuration, arguments: argparse.Namespace) -> Report:
    from deployments.stopping import stop

    stopped = stop(here, purge_database=arguments.purge)
    first = "the stack has ended" if stopped.ended or stopped.leftovers else "no stack was running"
    left = [_unfinished(stopped.unfinished, purged=arguments.purge)] if stopped.unfinished else []
    return Report(0, asdict(stopped), "\n".join([first, *left, *(f"removed {path}" for path in stopped.removed)]))


def _unfinished(number: int, *, purged: bool) -> str:
    what = "1 delegation is unfinished" if number == 1 else f"{number} delegations are unfinished"
    if purged:
        return f"{what} and cannot go on, for the database is gone: after `delegate up`, `delegate wait ID` closes each"
    return f"{what}, and {'goes' if number == 1 else 'go'} on after `delegate up`"


def _status(here: Configuration, _arguments: argparse.Namespace) -> Report:
    from deployments.status import status

    return status(here)


def _doctor(here: Configuration, _arguments: argparse.Namespace) -> Report:
    from deployments.doctor import doctor

    return Report(*doctor(here))


_COMMANDS = {"up": _up, "down": _down, "status": _status, "doctor": _doctor}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="delegate", description="The stack: database, Prefect server, worker, launcher."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in _COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("--json", action="store_true", help="one JSON object on stdout")
        if name == "down":
            command.add_argument(
                "--purge", action="store_true", help="remove the database and Prefect's history as well"
            )
    return parser


def _failed(arguments: argparse.Namespace, error: Exception, code: int) -> int:
    if arguments.json:
        print(json.dumps({"error": str(error), "running": False}))  # noqa: T201
    _say(str(error))
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
