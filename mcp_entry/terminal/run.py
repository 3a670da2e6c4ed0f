"""The verbs that make and end delegations: run, wait, rerun, cancel."""

import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from delegation.errors import UsageError
from delegation.ids import COMPARISON_PREFIX
from delegation.outcome import exit_code_of
from delegation.receipt import Receipt
from mcp_entry.terminal.card_input import CardOptions, TaskSource, card_of
from mcp_entry.terminal.common import (
    AsJson,
    Id,
    Notify,
    Patience,
    checked_patience,
    print_json,
    print_line,
    say,
    service,
)
from mcp_entry.terminal.exits import OK, OTHER_OUTCOME, STOPPED_WAITING
from mcp_entry.terminal.follow import StoppedWaiting, follow
from mcp_entry.verbs.rerun.changes import RerunFrom
from mcp_entry.verbs.results import Started
from mcp_entry.verbs.service import Service
from mcp_entry.verbs.wording import watch_command

NoWait = Annotated[bool, Parameter(name="--no-wait", negative="", show_default=False, help="Print the id and return.")]
_CANCEL_SECONDS = 60


def run(
    task: Annotated[str | None, Parameter(help="What is to be done; `-` reads it from stdin.")] = None,
    /,
    *,
    task_file: Annotated[str | None, Parameter(help="Read the task from a file; `-` is stdin.")] = None,
    card: Annotated[Path | None, Parameter(help="A card as JSON or TOML; flags win over it.")] = None,
    options: Annotated[CardOptions, Parameter(name="*")] = CardOptions(),  # noqa: B008  # frozen, all defaults
    notify: Notify = None,
    no_wait: NoWait = False,
    json: AsJson = False,
) -> int:
    """Delegate one piece of work, wait, and report its outcome as the exit code."""
    wanted = card_of(options, TaskSource(task, task_file, card))
    verbs = service()
    return _report(verbs, verbs.submit(wanted, notify=notify), wait=not no_wait, as_json=json)


def wait(
    *ids: Id,
    all: Annotated[  # noqa: A002  # the flag's known name
        bool, Parameter(negative="", show_default=False, help="Print nothing before every one has ended.")
    ] = False,
    timeout: Patience = None,
    json: AsJson = False,
) -> int:
    """Wait until all have ended. With --json each receipt is one line, in the order of the ids."""
    if not ids:
        raise UsageError("wait for what? `delegate list` shows the ids")
    patience = checked_patience(timeout)
    verbs = service(at_work=True)
    known = [verbs.identify(text) for text in ids]
    until = None if patience is None else time.monotonic() + patience
    if all:
        _await_all(verbs, known, until)
    codes = [_followed(verbs, delegation_id, until=until, as_json=json) for delegation_id in known]
    return STOPPED_WAITING if STOPPED_WAITING in codes else max(codes)


def _await_all(verbs: Service, known: Collection[str], until: float | None) -> None:
    with suppress(StoppedWaiting):
        for delegation_id in known:
            follow(verbs, delegation_id, until=until)


def rerun(
    which: Id,
    *,
    from_: Annotated[
        RerunFrom,
        Parameter(
            name="--from",
            help="start: a new delegation. agent: resume one that failed. verify: judge the patch again.",
        ),
    ] = "start",
    model: Annotated[str | None, Parameter(help="Another model.")] = None,
    go_on: Annotated[
        bool,
        Parameter(
            name="--continue",
            negative="",
            show_default=False,
            help="A new delegation that goes on with the change and the conversation of this one.",
        ),
    ] = False,
    prompt_add: Annotated[
        str | None,
        Parameter(
            help="Added to the task; with --continue the next message, without it why the change was not accepted."
        ),
    ] = None,
    base: Annotated[str | None, Parameter(help="From the start: another branch, tag or commit, such as HEAD.")] = None,
    verify: Annotated[str | None, Parameter(help="Another command that judges the change.")] = None,
    setup: Annotated[str | None, Parameter(help="Another setup command.")] = None,
    key: Annotated[str | None, Parameter(help="The same key returns the same delegation.")] = None,
    no_wait: NoWait = False,
    json: AsJson = False,
) -> int:
    """Do it again and report the new outcome. What the first run left stays as it is."""
    if go_on and from_ != "start":
        raise UsageError(f"--continue makes a new delegation, --from {from_} runs the old one again: give one of them")
    verbs = service()
    changes = {"model": model, "base": base, "verify": verify, "setup": setup, "key": key}
    if go_on:
        started = verbs.go_on(which, added=prompt_add, **changes)
    else:
        started = verbs.rerun(which, start_at=from_, prompt_add=prompt_add, **changes)
    return _report(verbs, started, wait=not no_wait, as_json=json)


def cancel(which: Id, *, json: AsJson = False) -> int:
    """Ask for the end and wait for it, for a minute at most. What the agent did until then is kept.

    The id of a comparison ends that one, with all of its trials.
    """
    verbs = service(at_work=True)
    done = verbs.cancel(which)
    state = done.state if done.had_ended else _ended_state(verbs, done.id)
    if json:
        print_json({"id": done.id, "state": state, "had_ended": done.had_ended})
    else:
        say(f"{done.id} had already ended: {state}" if done.had_ended else f"{done.id} {state}")
    return OK


def _ended_state(verbs: Service, delegation_id: str) -> str:
    if delegation_id.startswith(COMPARISON_PREFIX):
        return verbs.comparing.state_once_ended(delegation_id, at_most_seconds=_CANCEL_SECONDS)
    try:
        return follow(verbs, delegation_id, until=time.monotonic() + _CANCEL_SECONDS).outcome
    except StoppedWaiting:
        return "cancelling"


def _report(verbs: Service, started: Started, *, wait: bool, as_json: bool) -> int:
    for warning in started.warnings:
        if warning not in verbs.settings.warnings:  # those were said when the settings were read
            say(f"warning: {warning}")
    number = "" if started.number is None else f" (#{started.number})"
    say(f"{started.id}{number} {_what_it_is(started)}")
    if started.program:
        say(started.program)
    elif started.endpoint:
        rule = f" ({started.endpoint_rule})" if started.endpoint_rule else ""
        say(f"its model {started.model!r} answers at {started.endpoint}{rule}")
    if started.ui_url:
        say(f"in the UI: {started.ui_url}")
    if wait:
        return _followed(verbs, started.id, until=None, as_json=as_json, said=started.warnings)
    watch = watch_command(verbs.settings.home, started.id)
    if as_json:
        print_json({**vars(started), "watch": watch})
    else:
        print_line(started.id)
        say(f"watch it with: {watch}")
    return OK


def _what_it_is(started: Started) -> str:
    if started.taken_up:
        return "is resumed: its agent continues at its last turn"
    if started.judged_again:
        return "is judged again: its verify step runs, and no model is asked"
    return "submitted" if started.is_new else "already stands for this key"


def _followed(
    verbs: Service, delegation_id: str, *, until: float | None, as_json: bool, said: Collection[str] = ()
) -> int:
    try:
        receipt = follow(verbs, delegation_id, until=until)
    except StoppedWaiting:
        say(f"{delegation_id} goes on; wait for it again with: {watch_command(verbs.settings.home, delegation_id)}")
        return STOPPED_WAITING
    except KeyboardInterrupt:
        say(
            f"stopped waiting; {delegation_id} goes on. Wait again: {watch_command(verbs.settings.home, delegation_id)}"
        )
        say(f"end it with: delegate cancel {delegation_id}")
        return STOPPED_WAITING
    return _shown(receipt, verbs.program_log(receipt.id), as_json=as_json, said=said)


def _shown(receipt: Receipt, program_log: Path | None, *, as_json: bool, said: Collection[str]) -> int:
    if as_json:
        print_json(receipt)
    else:
        from mcp_entry.terminal.shown.render import out, show_receipt

        show_receipt(out(), receipt, said=said, program_log=program_log)
    code = exit_code_of(receipt)
    assert code in (OK, OTHER_OUTCOME)
    return code
