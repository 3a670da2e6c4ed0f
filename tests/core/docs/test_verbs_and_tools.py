"""The reference pages name every verb, option, tool and argument that there is."""

import importlib
import inspect
from dataclasses import fields, is_dataclass
from typing import get_args

import pytest
from cyclopts import Parameter
from front import ROOT, Front
from mcp import Client

from mcp_entry.mcp_server.server import build
from mcp_entry.terminal.app import VERBS


def options_of(verb: str) -> set[str]:
    """The options of a verb, as a person types them."""
    module, _, name = VERBS[verb][0].partition(":")
    function = getattr(importlib.import_module(f"mcp_entry.terminal.{module}"), name)
    found: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        options = next((each for each in get_args(parameter.annotation) if is_dataclass(each)), None)
        if isinstance(options, type):
            found |= {_typed(each.name, each.type) for each in fields(options)}
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            found.add(_typed(parameter.name, parameter.annotation))
    return found


def _typed(name: str, annotation: object) -> str:
    named = [each.name for each in get_args(annotation) if isinstance(each, Parameter) and each.name]
    return named[0][0] if named and named[0] else f"--{name.strip('_').replace('_', '-')}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_on_the_page(verb: str):
    page = (ROOT / "docs" / "reference" / "terminal.md").read_text(encoding="utf-8")

    assert f"`delegate {verb}" in page
    assert {
        option for option in options_of(verb) if f"`{option}" not in page and f"`--no-{option[2:]}" not in page
    } == set()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_tool_and_argument_is_on_the_page(front: Front):
    page = (ROOT / "docs" / "reference" / "mcp-tools.md").read_text(encoding="utf-8")
    async with Client(build(front.service)) as connected:
        tools = (await connected.list_tools()).tools

    missing = {
        f"{tool.name}.{argument}"
        for tool in tools
        for argument in tool.input_schema["properties"]
        if f"`{argument}`" not in page.split(f"### {tool.name}\n", 1)[1].split("\n### ")[0]
    }
    assert missing == set()
