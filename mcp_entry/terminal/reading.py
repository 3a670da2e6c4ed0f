"""The verbs that read: analyze, query, resume, pack, sessions. None of them needs the stack."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from delegation.errors import Cancelled, DelegateError, FailureKind, UsageError, WorkFailed
from mcp_entry.terminal.card_input import text_of_source, words_of
from mcp_entry.terminal.common import AsJson, print_json, print_line, say, service
from mcp_entry.terminal.exits import OK, OTHER_OUTCOME, STOPPED_WAITING
from mcp_entry.verbs.reading.reading import with_config
from mcp_entry.verbs.service import Service

if TYPE_CHECKING:
    from delegation.reading.admission import Wish
    from delegation.reading.metrics import Tool
    from delegation.reading.packing.manifest import Manifest
    from delegation.reading.question import Answer

Words = Annotated[
    str | None, Parameter(name="PROMPT", help="What you want to know; `-` or a pipe reads it from stdin.")
]
PromptFile = Annotated[str | None, Parameter(name="--task-file", help="Read the prompt from a file; `-` is stdin.")]
Model = Annotated[str | None, Parameter(help="A provider of the configuration, or an alias of `delegate models`.")]
Limit = Annotated[
    int | None, Parameter(name="--max-output-tokens", help="Length of the answer: at least 200, else 4096.")
]
SchemaFile = Annotated[
    str | None, Parameter(name="--json-schema", help="A file with a JSON schema that the answer must fit.")
]
TooLarge = Annotated[
    Literal["split", "refuse"],
    Parameter(name="--on-too-large", help="Files too many for one request: read them in parts, or refuse."),
]
Config = Annotated[
    str | None, Parameter(name=["--config", "-c"], help="JSON configuration of the readers; none: the usual places.")
]
Folder = Annotated[str, Parameter(name="DIR", help="Folder or file.")]


def analyze(
    dir_: Folder,
    prompt: Words = None,
    /,
    *,
    task_file: PromptFile = None,
    model: Model = None,
    max_output_tokens: Limit = None,
    json_schema: SchemaFile = None,
    on_too_large: TooLarge = "split",
    config: Config = None,
    json: AsJson = False,
) -> int:
    """Pack a folder or file, send it to a cheap model with a question, print the answer with checked references."""
    words = words_of(prompt, task_file, "prompt")
    wish = _wish(max_output_tokens, json_schema, model, on_too_large)
    verbs = _service(config)
    return _answered("analyze", lambda: verbs.reading.analyze(_folder(verbs, dir_), words, wish), as_json=json)


def query(
    prompt: Words = None,
    /,
    *,
    task_file: PromptFile = None,
    model: Model = None,
    max_output_tokens: Limit = None,
    json_schema: SchemaFile = None,
    config: Config = None,
    json: AsJson = False,
) -> int:
    """Ask a cheap model one question without files."""
    words = words_of(prompt, task_file, "prompt")
    wish = _wish(max_output_tokens, json_schema, model)
    verbs = _service(config)
    return _answered("query", lambda: verbs.reading.query(words, wish), as_json=json)


def resume(
    session: Annotated[str, Parameter(name="ID", help="The word after `session=` in an earlier answer.")],
    prompt: Words = None,
    /,
    *,
    task_file: PromptFile = None,
    max_output_tokens: Limit = None,
    json_schema: SchemaFile = None,
    on_too_large: TooLarge = "split",
    config: Config = None,
    json: AsJson = False,
) -> int:
    """Ask further: the same model, the same files as they were, and all that was said."""
    words = words_of(prompt, task_file, "prompt")
    wish = _wish(max_output_tokens, json_schema, None, on_too_large)
    verbs = _service(config)
    return _answered("resume", lambda: verbs.reading.resume(session, words, wish), as_json=json)


def pack(
    dir_: Folder,
    /,
    *,
    list_: Annotated[
        bool, Parameter(name="--list", negative="", help="One line for each file, and for what is left out and why.")
    ] = False,
    config: Config = None,
    json: AsJson = False,
) -> int:
    """Print what a reader would get of a folder or file. Nothing is sent."""
    from delegation.reading.packing.rendering import rendered

    verbs = _service(config)
    found = verbs.reading.pack(_folder(verbs, dir_))
    if json:
        print_json(found.manifest)
    elif list_:
        print_line("\n".join(_lines(found.manifest)))
    else:
        print_line(rendered(found).rstrip("\n"))
    return OK


def sessions(
    what: Annotated[
        Literal["list", "prune"], Parameter(name="WHAT", help="`prune` removes those that are over.")
    ] = "list",
    /,
    *,
    config: Config = None,
    json: AsJson = False,
) -> int:
    """List the sessions that can be resumed, newest first, or remove those that are over."""
    verbs = _service(config)
    return _pruned(verbs, as_json=json) if what == "prune" else _listed(verbs, as_json=json)


def _service(config: str | None) -> Service:
    verbs = service()
    return Service(with_config(verbs.settings, config), say) if config else verbs


def _folder(verbs: Service, text: str) -> Path:
    return (verbs.settings.cwd / Path(text).expanduser()).absolute()


def _wish(
    limit: int | None, schema_file: str | None, model: str | None, on_too_large: Literal["split", "refuse"] = "split"
) -> "Wish":
    from delegation.reading.admission import Wish
    from delegation.reading.typed import schema_of_text

    if limit is not None and limit < 1:
        raise UsageError(f"--max-output-tokens must be a whole number above 0, not {limit}")
    schema = schema_of_text(text_of_source(schema_file), f"the schema in {schema_file!r}") if schema_file else None
    return Wish(limit, schema, on_too_large, model)


def _answered(tool: "Tool", ask: "Callable[[], Answer]", *, as_json: bool) -> int:
    """Print the answer, or say why there is none: exit code 1 where those asked failed."""
    try:
        answer = ask()
    except WorkFailed as failure:
        return _failed(tool, "failed", failure, failure.kind, as_json=as_json)
    except Cancelled as stopped:
        return _failed(tool, "cancelled", stopped, None, as_json=as_json)
    except KeyboardInterrupt:  # the request has ended with it; the parser would make 130 of it
        say("the question was given up")
        return STOPPED_WAITING
    if as_json:
        print_json({"outcome": "answered", **answer.model_dump(mode="json")})
    else:
        print_line(answer.text)
    for warning in (each for each in answer.warnings if as_json or f"note: {each}" not in answer.text):
        say(f"warning: {warning}")
    return OK


def _failed(
    tool: "Tool",
    outcome: Literal["failed", "cancelled"],
    failure: DelegateError,
    kind: FailureKind | None,
    *,
    as_json: bool,
) -> int:
    if as_json:
        print_json({"outcome": outcome, "tool": tool, "failure_kind": kind, "message": str(failure)})
    say(" ".join(str(failure).split()))
    return OTHER_OUTCOME


def _lines(manifest: "Manifest") -> list[str]:
    files = [
        f"{file.size:>9} bytes {file.tokens:>8} tokens  {file.path}{' (cut)' if file.truncated else ''}"
        for file in manifest.files
    ]
    skips = [
        f"left out: {skip.path}: {skip.reason}{f' ({skip.detail})' if skip.detail else ''}" for skip in manifest.skipped
    ]
    total = (
        f"{len(manifest.files)} file(s), {manifest.size} bytes, about {manifest.tokens} tokens; {len(skips)} left out"
    )
    return [*files, *skips, total]


def _listed(verbs: Service, *, as_json: bool) -> int:
    found = verbs.reading.sessions()
    if as_json:
        print_json(
            {
                "sessions": [
                    each.model_dump(mode="json", exclude={"turns"}) | {"turns": len(each.turns)} for each in found
                ]
            }
        )
        return OK
    for each in found:
        about = each.source or " ".join(each.turns[0].prompt.split())[:60]
        print_line(f"{each.id}  {each.used_at:%Y-%m-%d %H:%M}  {len(each.turns)} turn(s)  {each.provider}  {about}")
    if not found:
        say("no session: `delegate analyze DIR PROMPT` begins one")
    return OK


def _pruned(verbs: Service, *, as_json: bool) -> int:
    found = verbs.reading.prune()
    if as_json:
        print_json({"sessions": found.sessions, "packs": found.corpora, "bytes": found.bytes})
    else:
        print_line(f"removed {found.sessions} session(s) and {found.corpora} pack(s), {found.bytes} bytes")
    return OK
