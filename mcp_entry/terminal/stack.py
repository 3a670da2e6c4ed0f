"""The verbs of the stack: up, down, status, ui, mcp."""

from typing import Annotated, Any

from cyclopts import Parameter

from mcp_entry.terminal.common import AsJson, print_json, say, service


def up(*, json: AsJson = False) -> int:
    """Start database, Prefect server and worker, or find them running."""
    from mcp_entry import stack

    settings = service().settings
    say("starting the stack")
    stack.control(settings, "up", timeout_seconds=stack.START_SECONDS)
    return _show(_told(stack.connection(settings)), as_json=json)


def down(
    *, purge: Annotated[bool, Parameter(negative="", help="Also remove the database.")] = False, json: AsJson = False
) -> int:
    """End what `up` started, and nothing else."""
    from mcp_entry import stack

    found = stack.control(service().settings, "down", *(["--purge"] if purge else []))
    if json:
        print_json({"running": False, **found})
    else:
        say("the stack is down")
    return 0


def status(*, json: AsJson = False) -> int:
    """Where the stack runs; exit code 4 when it does not."""
    from mcp_entry import stack

    return _show(_told(stack.connection(service().settings)), as_json=json)


def ui(id: Annotated[str | None, Parameter(help="A delegation; none means the whole UI.")] = None, *, json: AsJson = False) -> int:
    """The address to open in a browser."""
    from mcp_entry import stack

    verbs = service()
    found = stack.connection(verbs.settings)
    url = found.state.ui_url
    if id is not None:
        url = found.run_url(verbs.records.entry(verbs.identify(id)).flow_run_id) or url
    if json:
        print_json({"url": url})
    else:
        print(url)  # noqa: T201  # the result
    return 0


def mcp() -> int:
    """Serve MCP; the client starts this, a person rarely does."""
    from mcp_entry.server import serve

    return serve()


def _told(found: Any) -> dict[str, Any]:
    state = found.state
    with found.prefect() as api:
        answers = api.is_healthy()
    return {
        "running": True,
        "answers": answers,
        "ui_url": state.ui_url,
        "api_url": state.api_url,
        "version": state.version,
        "keeper_pid": state.keeper.pid,
        "started_at": state.started_at,
        "foreign_server": state.foreign_server,
        "warnings": list(state.warnings),
    }


def _show(told: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print_json(told)
        return 0
    from mcp_entry.render import out, show_pairs

    for warning in told["warnings"]:
        say(f"warning: {warning}")
    shown = ("ui_url", "api_url", "version", "keeper_pid", "started_at")
    show_pairs(out(), [("state", "running" if told["answers"] else "starting"), *((name, told[name]) for name in shown)])
    return 0
