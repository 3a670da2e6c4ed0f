"""From the words of `delegate run` to a card: flags over a card file, and the task from exactly one place."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from delegation.card import Card
from delegation.errors import UsageError
from mcp_entry.verbs.card_file import card_of_fields, decoded, fields_in, text_in


def _option(help_: str, *names: str) -> Parameter:
    return Parameter(name=names or None, help=help_, negative="", show_default=False)


@dataclass(frozen=True)
class CardOptions:
    """The flags of `delegate run`. None means: as in the card file, else the card's own default."""

    repo: Annotated[str | None, _option("Repository or folder to work on; default the current folder.")] = None
    base: Annotated[str | None, _option("Branch, tag or commit to start from; default HEAD.")] = None
    agent: Annotated[
        str | None,
        _option("A Markdown agent, or codex, gemini, dsh, claude or a command of yours; default the built-in coder."),
    ] = None
    model: Annotated[str | None, _option("Alias of a model (`delegate models`); default the default model.")] = None
    verify: Annotated[
        str | None,
        _option("Shell command that judges the change; auto: the one that the repository suggests; default none."),
    ] = None
    setup: Annotated[str | None, _option("Shell command that prepares each checkout; default none.")] = None
    lane: Annotated[
        Literal["local", "flat_plan", "metered", "subscription_cli"] | None,
        _option("Where the work may go; local never leaves this machine or network; default anywhere."),
    ] = None
    expects: Annotated[
        Literal["change", "answer"] | None, _option("Whether a patch (change, the default) or a text is wanted.")
    ] = None
    accept: Annotated[
        Literal["pass", "no_worse"] | None,
        _option("pass (default): the command must pass. no_worse: nothing newly fails."),
    ] = None
    wants: Annotated[list[str] | None, _option("A test that must pass; may be given several times.")] = None
    budget_usd: Annotated[
        float | None, _option("Stop at this known cost in USD; default no limit of its own.", "--budget")
    ] = None
    max_turns: Annotated[int | None, _option("Model turns; default 25 local, 60 cloud, at most 150.")] = None
    max_tokens: Annotated[
        int | None, _option("Output tokens per reply; default the setting, else what the model gives.")
    ] = None
    timeout_seconds: Annotated[
        int | None, _option("Seconds for the agent, from its start; default the setting, 3600.", "--timeout")
    ] = None
    verify_timeout_seconds: Annotated[
        int | None, _option("Seconds for one run of the verify command; default 1800.", "--verify-timeout")
    ] = None
    isolation: Annotated[
        Literal["worktree", "copy", "in_place"] | None, _option("Where the agent works; default worktree.")
    ] = None
    in_place: Annotated[bool, _option("The same as --isolation in_place.")] = False
    include_dirty: Annotated[bool, _option("Carry uncommitted changes into the base; default they stay out.")] = False
    include: Annotated[
        list[str] | None,
        _option("An ignored file, folder or pattern to have in the patch; may be given several times."),
    ] = None
    confinement: Annotated[
        Literal["auto", "required", "off"] | None, _option("Operating-system sandbox; default the setting, auto.")
    ] = None
    network: Annotated[bool | None, Parameter(help="Network for the agent's shell; default on, off in lane local.")] = (
        None
    )
    effort: Annotated[str | None, _option("How hard a command-line agent thinks; default its lowest.")] = None
    sandbox: Annotated[
        Literal["read-only", "workspace-write", "danger-full-access"] | None,
        _option("Codex's own sandbox; default workspace-write."),
    ] = None
    allow_over_quota: Annotated[
        bool, _option("Let Codex begin though more of the week's plan is used than you allow.")
    ] = False
    queue: Annotated[Literal["now", "night"] | None, _option("now (default) goes before night.")] = None
    key: Annotated[str | None, _option("The same key returns the same delegation.")] = None


@dataclass(frozen=True)
class TaskSource:
    """Where the task may come from."""

    words: str | None
    task_file: str | None
    card_file: Path | None


def card_of(options: CardOptions, source: TaskSource) -> Card:
    """The card. Raises UsageError that names the option, NotFoundError for a file that is not there."""
    fields = {} if source.card_file is None else fields_in(source.card_file)
    given = _given(options)
    fields.update(given)
    task = _task(source, has_one=bool(fields.get("task")))
    if task is not None:
        fields["task"] = task
    return card_of_fields(fields, {name: _flag_of(name) for name in given})


def _flag_of(field: str) -> str:
    """What a person types for a field of the card."""
    short = {"budget_usd": "budget", "timeout_seconds": "timeout", "verify_timeout_seconds": "verify-timeout"}
    return f"--{short.get(field, field.replace('_', '-'))}"


def words_of(words: str | None, task_file: str | None, what: str) -> str:
    """A text from exactly one place: an argument, a file, or stdin. Raises UsageError when it is empty."""
    found = _task(TaskSource(words, task_file, None), has_one=False)
    if not (found or "").strip():
        raise UsageError(f"the {what} is empty: give it as an argument, with --task-file, or on stdin")
    return found or ""


def text_of_source(source: str) -> str:
    """A file's text, or stdin's for `-`. Raises NotFoundError, or UsageError for what is not UTF-8."""
    return _text_of_stdin() if source == "-" else text_in(Path(source))


def _given(options: CardOptions) -> dict[str, Any]:
    given = {name: value for name, value in vars(options).items() if value is not None and value is not False}
    if options.network is False:
        given["network"] = False
    if given.pop("in_place", False):
        if options.isolation not in (None, "in_place"):
            raise UsageError(f"--in-place and --isolation {options.isolation} contradict each other: give one of them")
        given["isolation"] = "in_place"
    return given


def _task(source: TaskSource, *, has_one: bool) -> str | None:
    if source.words not in (None, "-") and source.task_file is not None:
        raise UsageError("the task is given twice: as an argument and with --task-file; give one of them")
    if source.words == "-" or source.task_file == "-":
        return _text_of_stdin()
    if source.task_file is not None:
        return text_in(Path(source.task_file))
    if source.words is not None:
        return source.words
    return None if has_one or sys.stdin.isatty() else _text_of_stdin()


def _text_of_stdin() -> str:
    return decoded(sys.stdin.buffer, "stdin")
