"""How to reach the Prefect server of this stack: ours, or the user's own."""

from dataclasses import dataclass

from delegation.errors import StackError
from deployments.configuration import Configuration
from deployments.environment import client_settings
from deployments.kept import Kept, server_port
from deployments.places import Places
from deployments.rest import PrefectRest

_OF_OUR_SERVER = {"PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "False"}  # it wants no token, which every client asks for


@dataclass(frozen=True)
class Connection:
    """Address and credentials."""

    api_url: str
    ui_url: str
    auth_string: str | None
    api_key: str | None
    port: int | None = None

    @property
    def foreign(self) -> bool:
        """Whether the server is the user's own, which we neither start nor end."""
        return self.port is None

    def rest(self) -> PrefectRest:
        return PrefectRest(self.api_url, self.auth_string, self.api_key)

    def settings(self, places: Places) -> dict[str, str]:
        """As Prefect settings for worker, launcher and flow processes."""
        known = {} if self.foreign else _OF_OUR_SERVER
        return {**client_settings(places, self.api_url, self.auth_string, self.api_key), **known}


def connection_of(configuration: Configuration, kept: Kept) -> Connection:
    """Raises StackError when the port that was asked for is taken."""
    foreign = configuration.foreign
    if foreign:
        return Connection(foreign.api_url, foreign.ui_url, foreign.auth_string, foreign.api_key)
    port = server_port(kept, configuration.server_port)
    origin = f"http://127.0.0.1:{port}"
    return Connection(f"{origin}/api", origin, f"delegate:{kept.secret('server_password')}", None, port)


def check_foreign(connection: Connection) -> None:
    """Raises StackError, saying what to change, when the user's server does not answer us."""
    from deployments.server import wait_for_server

    with connection.rest() as rest:
        try:
            wait_for_server(rest, None, seconds=10)
        except StackError as error:
            raise StackError(f"{error}: start that server, or unset PREFECT_API_URL to run ours") from error
