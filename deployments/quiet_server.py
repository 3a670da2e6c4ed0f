"""`prefect server start`, as it is, with one clock in it slowed down: `python -m deployments.quiet_server OPTION...`.

Prefect hands its background work to a library that looks four times a second, for ever, whether a moment has come.
What is to be done at once does not wait for that look; what is planned begins up to a second later. Where the clock
cannot be found any more, the server starts all the same.
"""

import importlib
import inspect
import sys
from datetime import timedelta
from typing import Any

from deployments.leaning import SERVER, problem

_SECOND = timedelta(seconds=1)
_LIBRARYS_WORKER = "Worker"  # docket's, which is Prefect's dependency and none of ours


def look_once_a_second() -> None:
    """Change what the library's worker does where nobody says otherwise."""
    worker: Any = getattr(importlib.import_module("prefect.server.api.background_workers"), _LIBRARYS_WORKER)
    parameters = inspect.signature(worker.__init__).parameters.values()
    with_default = [
        each for each in parameters if each.default is not each.empty and each.kind is not each.KEYWORD_ONLY
    ]
    slower = {"minimum_check_interval": _SECOND, "scheduling_resolution": _SECOND}
    worker.__init__.__defaults__ = tuple(slower.get(each.name, each.default) for each in with_default)


def main() -> None:
    from prefect.cli import app

    if lacks := problem(SERVER):
        sys.stderr.write(f"{lacks}\n")
    else:
        look_once_a_second()
    sys.argv = ["prefect", "server", "start", *sys.argv[1:]]
    app()


if __name__ == "__main__":
    main()
