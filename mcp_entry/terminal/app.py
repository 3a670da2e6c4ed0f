"""The command line: which verbs there are. Their modules are imported when they run: `delegate --help` stays quick."""

import difflib
from collections.abc import Sequence

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)

from delegation.errors import UsageError
from mcp_entry.version import version_text

GROUPS = {
    "Hand over work": {
        "run": ("run:run", "Delegate one piece of work and wait for its verdict."),
        "wait": ("run:wait", "Wait for delegations and report their outcome."),
        "cancel": ("run:cancel", "End a delegation; its work so far is kept."),
        "rerun": ("run:rerun", "Do a delegation again, from the start or from its verify step."),
        "task": ("task:task", "Ask a model once and print its answer."),
        "agentic": ("task:agentic", "Let an agent work in a folder and print its final answer."),
        "demo": ("demo:demo", "Run one delegation on a sample repository with a failing test."),
    },
    "Hand over much": {
        "cards": ("night:cards", "Check cards in files, and show their order and what each would run on."),
        "night": ("night:night", "Do a folder of cards overnight, and leave a report for the morning."),
        "compare": ("compare:compare", "Let several models do one card, and compare what they came to."),
        "batch": ("task:batch", "Do many tasks and agentic jobs from a file."),
    },
    "Take the change": {
        "patch": ("records:patch", "Print the change of a delegation."),
        "apply": ("applying:apply", "Apply changes to your repository, or refuse and leave it untouched."),
        "worktrees": ("trees:worktrees", "List the trees of delegations, bring files back, or clear away."),
        "enter": ("trees:enter", "Open a shell in the tree of a delegation."),
    },
    "Look back": {
        "list": ("records:list_", "List delegations, newest first."),
        "show": ("records:show", "Show one delegation."),
        "transcript": ("records:transcript", "Print what the agent did."),
        "stats": ("history:stats", "Count what was delegated, and what came of it."),
        "export": ("history:export", "Write the history for other programs."),
        "prune": ("history:prune", "Clear away records that nobody needs."),
    },
    "Ask about files": {
        "analyze": ("reading:analyze", "Ask a cheap model about a folder or file."),
        "query": ("reading:query", "Ask a cheap model a question without files."),
        "resume": ("reading:resume", "Ask further in the session of an earlier answer."),
        "pack": ("reading:pack", "Print what a reader would be sent of a folder, or list it."),
        "sessions": ("reading:sessions", "List reading sessions, or clear away those that are over."),
    },
    "The stack, models and agents": {
        "up": ("stack:up", "Start the stack, or say where it runs."),
        "down": ("stack:down", "End the stack; what is running goes on after the next `up`."),
        "status": ("stack:status", "Say whether the stack runs, and where."),
        "ui": ("stack:ui", "Print the address of the UI, or of one delegation in it."),
        "doctor": ("stack:doctor", "Say what is missing on this machine and how to get it."),
        "models": ("catalogue:models", "List the models that can be named, and which answer."),
        "agents": ("catalogue:agents", "List the agents that can be named."),
        "mcp": ("stack:mcp", "Serve MCP over stdin and stdout, for Claude Code and other clients."),
    },
}
"""The verbs as `--help` lists them: where each is, and what it does."""
VERBS = {verb: known for verbs in GROUPS.values() for verb, known in verbs.items()}
_MEANT = {
    "log": "transcript",
    "logs": "transcript",
    "diff": "patch",
    "ls": "list",
    "ps": "list",
    "stop": "cancel",
    "kill": "cancel",
    "retry": "rerun",
    "start": "up",
    "info": "show",
    "submit": "run",
    "config": "models",
}
_UNDO = "each `apply` prints the command that takes its change back"
_TEXTS = {
    "run": "task",
    "agentic": "task",
    "task": "prompt",
    "analyze": "prompt",
    "query": "prompt",
    "resume": "prompt",
}
_EPILOGUE = (
    "With every verb: --json prints one JSON object on stdout and nothing else there; --traceback shows where an error "
    "came from; --help shows the options and their defaults. "
    "Exit codes: 0 verified, answered, or unverified where no verify command was given; 1 any other outcome; "
    "2 usage, not found, or the stack cannot start; 3 the caller stopped waiting; 4 the stack is not running."
)


def run(words: Sequence[str]) -> int:
    """Run one verb and return its exit code. Raises UsageError for words that are not understood."""
    try:
        result = _app()(_with_stdin_named(words), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        asked = words[0] if words and words[0] in VERBS else ""
        help_words = " ".join(filter(None, ["delegate", asked, "--help"]))
        raise UsageError(f"{_said(error, asked)} See `{help_words}`.") from None
    return result if isinstance(result, int) else 0


def _said(error: CycloptsError, verb: str) -> str:
    """What is wrong in our words where they say more than the parser's."""
    from delegation.wrong_values import allowed  # pydantic comes with it, and most calls are right

    match error:
        case CoercionError() if error.token and error.token.keyword and error.target_type in (int, float):
            return f"{error.token.keyword} must be {allowed(error.target_type)}, not {error.token.value!r}."
        case UnusedCliTokensError() if error.unused_tokens:
            return _too_many(error.unused_tokens, verb)
        case MissingArgumentError() if error.argument is not None and error.argument.name == "--ID":
            return f"{verb} what? Give an ID: `delegate list` shows them."
        case UnknownCommandError() if error.unused_tokens:
            return _unknown_verb(error.unused_tokens[0])
        case _:
            return str(error)


def _too_many(words: Sequence[str], verb: str) -> str:
    told = " ".join(words)
    if verb in _TEXTS:
        return f"the {_TEXTS[verb]} is one argument, and {told!r} came after it: quote the {_TEXTS[verb]}."
    return f"{told!r} is more than `delegate {verb}` takes." if verb else f"{told!r} is too much."


def _unknown_verb(word: str) -> str:
    if word in ("undo", "revert", "unapply"):
        return f"there is no verb {word!r}: {_UNDO}."
    near = _MEANT.get(word) or next(iter(difflib.get_close_matches(word, VERBS, 1)), None)
    return f"there is no verb {word!r}" + (f": did you mean {near!r}?" if near else f"; there are {', '.join(VERBS)}.")


def _with_stdin_named(words: Sequence[str]) -> list[str]:
    """A lone `-` means stdin; the parser would take it for an unknown option."""
    named: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*named, *words[place:]]
        if word == "-" and named and named[-1] == "--task-file":
            named[-1] = "--task-file=-"
        else:
            named.append("--task-file=-" if word == "-" else word)
    return named


def _app() -> App:
    app = App(
        name="delegate",
        help="Hand coding work to other models and get back a change that was judged by your own tests.",
        help_epilogue=_EPILOGUE,
        version=version_text,
        help_format="plaintext",
    )
    for heading, verbs in GROUPS.items():
        group = Group.create_ordered(heading)
        for place, (verb, (target, says)) in enumerate(verbs.items()):
            app.command(f"mcp_entry.terminal.{target}", name=verb, help=says, group=group, sort_key=place)
    app.group_commands = Group.create_ordered("Options")  # --help and --version, below the verbs
    return app
