"""The command that a user has run when something has ended: bounded, without keys, and in nobody's way."""

import os
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from delegation import process
from delegation.errors import DelegateError
from delegation.files import publish
from delegation.home import Home
from delegation.notification.notice import Heard, Hook, Notice
from delegation.process import Finished

_SHOWN = 500
NAME = "notification.json"


def tell(hook: Hook, notice: Notice, *, home: Home, folder: Path) -> Heard:
    """Run the command with the notice as JSON on stdin and the report's path as `$1`; how it went is kept in `folder`.

    It gets an environment by allowlist (no key, nothing of the stack) and folders of its own as HOME and TMPDIR; it and
    all that it started end after `hook.seconds`. Never raises: a notification is never worth what it tells of.
    """
    begun = time.monotonic()
    try:
        heard = _heard(hook, _run(hook, notice, home))
    except (DelegateError, OSError, ValueError) as error:
        problem = f"it could not be run: {str(error)[:_SHOWN]}"
        heard = Heard(
            command=hook.command, at=datetime.now(UTC), seconds=time.monotonic() - begun, exit_code=None,
            problem=problem, output="",
        )  # fmt: skip
    with suppress(OSError):
        publish(folder / NAME, heard.model_dump_json(indent=1))
    return heard


def _run(hook: Hook, notice: Notice, home: Home) -> Finished:
    with tempfile.TemporaryDirectory(prefix="delegate-notify-", ignore_cleanup_errors=True) as place:
        own_home, temp = Path(place, "home"), Path(place, "tmp")
        process.make_private_folders(own_home, temp)
        source = {**os.environ, **({"PATH": hook.search_path} if hook.search_path else {})}
        return process.run(
            (*process.shell(hook.command), "notify", notice.report or ""),
            cwd=Path(place),
            env=process.child_environment(
                home=own_home, temp=temp, source=source, extra={"DELEGATE_HOME": str(home.root)}
            ),
            timeout_seconds=hook.seconds,
            stdin=notice.model_dump_json().encode(),
        )


def _heard(hook: Hook, finished: Finished) -> Heard:
    output = "\n".join(filter(None, (finished.stdout.text.strip(), finished.stderr.text.strip())))
    return Heard(
        command=hook.command,
        at=datetime.now(UTC),
        seconds=finished.seconds,
        exit_code=finished.exit_code,
        problem=_problem(hook, finished, output),
        output=output,
    )


def _problem(hook: Hook, finished: Finished, output: str) -> str | None:
    last = output.rpartition("\n")[2][-_SHOWN:]
    said = f": {last}" if last else ""
    if finished.timed_out:
        return f"it took longer than {hook.seconds:g} s and was ended{said}"
    if finished.exit_code is None:
        return f"it was ended{said}"
    return f"it ended with exit code {finished.exit_code}{said}" if finished.exit_code else None
