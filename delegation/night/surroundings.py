"""Whose settings a night has: those of whoever asked for it, though it runs hours later in a process of the stack.

The stack's processes see no keys. So what models and limits are resolved from is kept in the home, values by reference.
"""

import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from delegation.errors import UsageError
from delegation.files import publish, text_or_none
from delegation.home import Home
from delegation.kept_keys import EVERY_NIGHT, SURROUNDINGS
from delegation.models.providers import PROVIDERS
from delegation.secrets import keep, value_of
from delegation.settings import Settings, load_settings
from delegation.values import Value
from delegation.variables import VARIABLES

__all__ = ["EVERY_NIGHT", "Surroundings", "forget_surroundings", "keep_surroundings", "settings_for"]

_NAME = re.compile(r"[a-z0-9-]{1,80}")
_NOT_CARRIED = re.compile(r"PREFECT_.*|DELEGATE_(HOME|TEST_.*|DATABASE.*|SERVER_PORT|LAUNCHER|STACK.*|MCP_CONFIG|LOG)")
_CEILING = "DELEGATE_CONCURRENCY_"


class Surroundings(Value):
    """Where somebody stood, and the variables that count, each as a reference to a kept value. `parameters` are those
    of a night that comes every night: the keeper gives them back where its schedule has lost them."""

    cwd: str
    variables: dict[str, str]
    parameters: dict[str, Any] | None = None


def keep_surroundings(settings: Settings, name: str, parameters: dict[str, Any] | None = None) -> str:
    """Keep what this process resolves models from, under a name; one that is there is replaced. Returns the name."""
    carried = {each: keep(settings.home, value) for each in _carried(settings) if (value := settings.environ.get(each))}
    settings.home.make(settings.home.nights)
    kept = Surroundings(cwd=str(settings.cwd), variables=dict(sorted(carried.items())), parameters=parameters)
    publish(_file(settings.home, name), kept.model_dump_json(indent=1))
    return name


def forget_surroundings(home: Home, name: str) -> None:
    """The values go with the keeper's next sweep, where nothing else refers to them."""
    _file(home, name).unlink(missing_ok=True)


def settings_for(name: str | None) -> Settings:
    """The settings of whoever kept that name; without one those of this process.

    Raises UsageError where they are gone, WorkFailed('auth') where one of the values is.
    """
    here = load_settings()
    if name is None:
        return here
    try:
        kept = Surroundings.model_validate_json(text_or_none(_file(here.home, name)) or "")
    except ValidationError:
        raise UsageError(f"the settings {name!r} of this night are gone: call `delegate night` again") from None
    values = {each: value_of(here.home, reference) for each, reference in kept.variables.items()}
    return load_settings({**os.environ, **values}, Path(kept.cwd))


def _file(home: Home, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} names no settings of a night")
    return home.nights / f"{name}{SURROUNDINGS}"


def _carried(settings: Settings) -> Iterator[str]:
    """Our own variables, those that hold keys of models, and what the agents' commands are to get."""
    yield "PATH"
    yield from (provider.key_variable for provider in PROVIDERS)
    yield from _named_as_keys(settings)
    for name in settings.environ:
        ours = (name in VARIABLES or name.startswith(_CEILING)) and not _NOT_CARRIED.fullmatch(name)
        if ours or any(fnmatch.fnmatchcase(name, pattern) for pattern in settings.env_passthrough):
            yield name


def _named_as_keys(settings: Settings) -> Iterator[str]:
    for model in settings.catalogue.models.values():
        if model.key is not None:
            yield model.key.removeprefix("env:")
    yield from (backend.api_key_env for _, backend in settings.backends.backends if backend.api_key_env)
