"""The verb `demo`: one real delegation on a sample repository, with whatever model this machine has."""

import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from delegation.card import Card
from delegation.errors import DelegateError
from delegation.outcome import exit_code_of
from delegation.settings import Settings, load_settings
from mcp_entry.terminal.common import AsJson, print_json, say

_SCRIPTED_MODEL = "local-scripted"


def demo(
    *,
    model: Annotated[str | None, Parameter(help="An alias of your catalogue; it may cost money.")] = None,
    json: AsJson = False,
) -> int:
    """Make a sample repository with a failing test, delegate its repair, and show verdict, patch and UI address."""
    from delegation.sample import TASK, VERIFY, make_repository

    repository = make_repository(Path(tempfile.mkdtemp(prefix="delegate-demo-")))
    say(f"the sample repository is {repository}; its test suite fails")
    card = Card(task=TASK, repo=str(repository), verify=VERIFY, model=model)
    try:
        with _settings(model) as settings:
            return _delegated(settings, card, as_json=json)
    except (DelegateError, KeyboardInterrupt):
        say(f"left behind: {_sample(card)}, and the stack where it runs (`{program()} down` ends it)")
        raise


def program() -> str:
    """What a person types for `delegate`: where it is not on the PATH, the one beside this Python."""
    beside = Path(sys.executable).parent / "delegate"
    if shutil.which("delegate") is not None or not beside.is_file():
        return "delegate"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


@contextmanager
def _settings(model: str | None) -> Generator[Settings]:
    """The user's own settings when a model is named or a local server answers; else a scripted model's."""
    settings = load_settings()
    if model is not None:
        say(f"the model is {model!r} of your catalogue")
        yield settings
    elif (found := _local_model(settings)) is not None:
        say(f"a model server answers on this machine; the model is {found!r}")
        yield settings
    else:
        with _scripted(settings) as scripted:
            yield scripted


def _local_model(settings: Settings) -> str | None:
    """A model that costs nothing: the one of a local server. Paid ones are used only when named."""
    from delegation.models.discovery import discover

    server = next(iter(discover(settings)), None)
    return server.models[0] if server and server.models else None


@contextmanager
def _scripted(settings: Settings) -> Generator[Settings]:
    from delegation.sample import repair
    from delegation.scripted.endpoint import ScriptedEndpoint

    say("no model server answers on this machine, so a SCRIPTED model plays its part over real HTTP on loopback;")
    say("everything else is real: Prefect, the worktree, the tools, the tests, the verdict")
    with ScriptedEndpoint(repair) as endpoint:
        yield load_settings(
            {
                **settings.environ,
                "DELEGATE_LOCAL_URL": f"{endpoint.base_url}/chat/completions",
                "DELEGATE_LOCAL_KEY": "",
                "DELEGATE_LOCAL_MODEL": _SCRIPTED_MODEL,
            }
        )


def _delegated(settings: Settings, card: Card, *, as_json: bool) -> int:
    from mcp_entry.terminal.follow import follow
    from mcp_entry.terminal.shown.render import out, show_patch, show_receipt
    from mcp_entry.verbs.service import Service

    verbs = Service(settings, say)
    receipt = follow(verbs, verbs.submit(card, tool="demo").id, until=None)
    delegate = program()
    if as_json:
        print_json(receipt)
        return exit_code_of(receipt)
    show_receipt(out(), receipt)
    if receipt.patch:
        show_patch(out(), Path(receipt.patch.path))
        say(f"apply it to the sample repository with: {delegate} apply {receipt.id}")
    say(f"the run in Prefect's UI: {receipt.ui_url} (`{delegate} ui` prints the address and the password)")
    say(f"left behind: {_sample(card)}, the record in {settings.home.root}, and the running stack "
        f"(`{delegate} down` ends it; the record stays)")  # fmt: skip
    return exit_code_of(receipt)


def _sample(card: Card) -> str:
    return f"the sample repository (rm -r {card.repo})"
