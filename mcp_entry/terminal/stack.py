"""The verbs of the stack. What they do and say is said by the stack's own program; here are its name and exit code."""

from typing import Annotated, NoReturn

from cyclopts import Parameter

from mcp_entry.terminal.common import AsJson, print_json, print_line, say, service
from mcp_entry.terminal.exits import OK


def up(*, json: AsJson = False) -> int:
    """Start database, Prefect server and worker, or find them running. Safe when several do it at once."""
    return _relay("up", json=json)


def down(
    *,
    purge: Annotated[
        bool, Parameter(negative="", show_default=False, help="Also remove the database and Prefect's history.")
    ] = False,
    json: AsJson = False,
) -> int:
    """End what `up` started, and nothing else. Records of delegations stay."""
    return _relay("down", *(["--purge"] if purge else []), json=json)


def status(*, json: AsJson = False) -> int:
    """Where the stack runs; exit code 4 when it does not."""
    return _relay("status", json=json)


def doctor(*, json: AsJson = False) -> int:
    """What is missing on this machine, and how to get it."""
    return _relay("doctor", json=json)


def ui(
    which: Annotated[str | None, Parameter(name="ID", help="A delegation; none: all.")] = None,
    /,
    *,
    json: AsJson = False,
) -> int:
    """The address to open in a browser, and what it asks for to sign in."""
    from mcp_entry.stack.access import connection

    verbs = service(at_work=True)
    known = verbs.identify(which) if which else None
    found = connection(verbs.settings)
    url = (found.run_url(verbs.records.entry(known).flow_run_id) if known else None) or found.state.ui_url
    if json:
        print_json({"url": url, "auth_string": found.state.auth_string})
        return OK
    print_line(url)
    if found.state.auth_string:
        say(f"sign in with {found.state.auth_string}")
    return OK


def mcp(
    *,
    config: Annotated[
        str | None, Parameter(name=["--config", "-c"], help="JSON configuration of the reading tools.")
    ] = None,
) -> NoReturn:
    """Serve MCP; the client starts this, a person rarely does."""
    from mcp_entry.mcp_server.stdio import serve

    serve(config)


def _relay(*words: str, json: bool) -> int:
    from mcp_entry.stack.access import relay

    return relay(service(at_work=words[0] != "up").settings, *words, *(["--json"] if json else []))
