"""`python -m deployments up | down [--purge] | status | doctor`; with --json one object on stdout, all else on stderr.

Exit codes: 0 done; 2 wrong usage, or the stack cannot start; 4 `status` found no running stack.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from delegation.errors import DelegateError, StackNotRunning
from deployments.configuration import Configuration, configuration


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        code, report, text = _COMMANDS[arguments.command](configuration(), arguments)
    except StackNotRunning as error:
        return _failed(arguments, error, 4)
    except DelegateError as error:
        return _failed(arguments, error, 2)
    print(json.dumps(report) if arguments.json else text)  # noqa: T201
    return code


def _up(here: Configuration, _arguments: argparse.Namespace) -> tuple[int, dict[str, Any], str]:
    from deployments.starting import start

    state = start(here, _say)
    for warning in state.warnings:
        _say(f"warning: {warning}")
    report = {"running": True, "ui_url": state.ui_url, "api_url": state.api_url, "warnings": list(state.warnings)}
    return 0, {**report, "version": state.version, "config_hash": state.config_hash}, f"the stack runs: {state.ui_url}"


def _down(here: Configuration, arguments: argparse.Namespace) -> tuple[int, dict[str, Any], str]:
    from deployments.stopping import stop

    report = stop(here, purge_database=arguments.purge)
    lines = ["the stack has ended" if report["ended"] or report["leftovers"] else "no stack was running"]
    return 0, dict(report), "\n".join([*lines, *(f"removed {path}" for path in report["removed"])])  # type: ignore[union-attr]


def _status(here: Configuration, _arguments: argparse.Namespace) -> tuple[int, dict[str, Any], str]:
    from deployments.status import status

    return status(here)


def _doctor(here: Configuration, _arguments: argparse.Namespace) -> tuple[int, dict[str, Any], str]:
    from deployments.doctor import doctor

    return doctor(here)


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
