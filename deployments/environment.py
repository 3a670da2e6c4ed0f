"""What the stack's processes see of the environment: an allowlist, so that no key of whoever ran `up` is inherited."""

import os
import sys
from collections.abc import Mapping

from delegation.layout import pipeline_directory
from delegation.stack_state import MARK
from deployments.configuration import CEILING_PREFIX, STACK_VARIABLES, Configuration
from deployments.places import Places

_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
_KEPT_PREFIXES = ("LC_", "XDG_", "DELEGATE_TEST_")
DATABASE_VARIABLE = "DELEGATE_DATABASE_URL"


def stack_environment(configuration: Configuration, source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The base of every stack process: no provider keys, no PREFECT_*, byte code written, our home and mark named."""
    given = os.environ if source is None else source
    kept = {name: value for name, value in given.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    home = {"DELEGATE_HOME": str(configuration.home.root)} if given.get("DELEGATE_HOME") else {}
    return {
        **kept,
        **home,
        MARK: Places(configuration.home).token,
        "PYTHONPATH": str(pipeline_directory()),
        "PYTHONUNBUFFERED": "1",
        "DO_NOT_TRACK": "1",
    }


def keeper_environment(configuration: Configuration, source: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the keeper gets: the base, and the variables that say which database and server it is to run."""
    given = os.environ if source is None else source
    chosen = {
        name: value
        for name, value in given.items()
        if value and (name in STACK_VARIABLES or name.startswith(CEILING_PREFIX))
    }
    return {**stack_environment(configuration, given), **chosen}


def client_settings(places: Places, api_url: str, auth_string: str | None, api_key: str | None) -> dict[str, str]:
    """Prefect settings of everything that talks to the server.

    By the names and in the form in which a worker hands them on: a flow process then finds those that it was forked
    with, and need not read them again.
    """
    credentials = {"PREFECT_API_AUTH_STRING": auth_string, "PREFECT_API_KEY": api_key}
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(places.prefect_home),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(places.home.results),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "False",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "False",
        "PREFECT_CLI_PROMPT": "False",
        "PREFECT_CLI_COLORS": "False",
        "PREFECT_LOGGING_COLORS": "False",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "False",  # it is asked at every connection
        **{name: value for name, value in credentials.items() if value},
    }


def python(*arguments: str) -> list[str]:
    """This interpreter with arguments; never with the current folder on the module path."""
    return [sys.executable, "-P", *arguments]
