"""Which hosts `delegate_to_provider` may be sent to: any but those where a machine's own services answer.

The name is judged here, when the card is admitted, and every address it then has once more when it is connected to
(`delegation.chat.network.no_metadata`): a name may have another address by then. Redirects are not followed.
"""

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from delegation.errors import UsageError
from delegation.models.addresses import host_of


def check_provider_host(url: str, allowed: Sequence[str]) -> None:
    """Raises UsageError for a host that is not in the list (where there is one), or that is a metadata service.

    Loopback and private networks are allowed: that is where people's own servers are.
    """
    from delegation.chat.network import no_metadata  # brings httpx

    host = host_of(url)
    if allowed and host not in {entry.lower() for entry in allowed}:
        raise UsageError(
            f"provider_url names the host {host!r}, which is not in DELEGATE_PROVIDER_ALLOWED_HOSTS: "
            f"allowed are {', '.join(allowed)}"
        )
    refused = no_metadata(())
    for address in _addresses(host, urlsplit(url).port):
        if reason := refused(host, address):
            raise UsageError(f"provider_url is refused: {reason}")


def _addresses(host: str, port: int | None) -> list[str]:
    """Every address of the host, also of one written as a number; none where it has none now: that shows later."""
    try:
        return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port or 443, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []
