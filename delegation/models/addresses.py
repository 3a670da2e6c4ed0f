"""Addresses of endpoints: one spelling for each, and whether one is on this machine or a private network of ours."""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

from delegation.errors import UsageError
from delegation.request import WireFormat

_FORMAT_PATHS = ("/chat/completions", "/messages/count_tokens", "/messages", "/responses", "/models", "/completions")
_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|$)")


def checked_url(text: str, what: str) -> str:
    """The address without a trailing slash. Raises UsageError that says `what` is wrong and never shows credentials."""
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{what} is not a valid address: write it as http://host:port/v1") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"{what} must begin with http:// or https:// and name a host, for example http://localhost:4000/v1"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{what} must not hold a user or password: give the key by its own variable")
    if parts.query or parts.fragment:
        raise UsageError(
            f"{what} must not have a query or a fragment: write it as {parts.scheme}://{parts.netloc}{parts.path}"
        )
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def base_url(text: str, wire_format: WireFormat, what: str) -> str:
    """`https://host/v1` from any usual spelling: with the format's own path, a trailing slash, or no path at all.

    Anthropic's own clients add `/v1` themselves, so for that format it is added wherever no version is in the path.
    """
    url = checked_url(text, what)
    for path in _FORMAT_PATHS:
        url = url.removesuffix(path)
    path = urlsplit(url).path
    if not path or (wire_format == "anthropic_messages" and not _VERSION.search(path)):
        return f"{url}/v1"
    return url


def format_of_url(url: str) -> WireFormat | None:
    """The format that an address itself names by its last part, if it does."""
    named: dict[str, WireFormat] = {
        "/chat/completions": "openai_chat",
        "/messages": "anthropic_messages",
        "/responses": "openai_responses",
    }
    path = urlsplit(url.strip()).path.rstrip("/")
    return next((wire_format for ending, wire_format in named.items() if path.endswith(ending)), None)


def gateway_root(url: str) -> str:
    """The address of a gateway without what its own examples put behind it: `/litellm`, a version, a format's path."""
    for path in _FORMAT_PATHS:
        url = url.rstrip("/").removesuffix(path)
    return re.sub(r"/v\d+$", "", url.rstrip("/")).removesuffix("/litellm")


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def is_loopback(url: str) -> bool:
    """Whether the address names this machine. A name other than localhost never does: its meaning can change."""
    host = host_of(url)
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _ip(host)
    return address is not None and (address.is_loopback or _is_mapped_loopback(address))


def is_local(url: str, local_hosts: Iterable[str] = ()) -> bool:
    """Whether work of the lane 'local' may go there: loopback, or a host or network that the settings list."""
    host = host_of(url)
    address = _ip(host)
    return is_loopback(url) or any(
        host == entry.lower() if address is None else _covers(entry, address) for entry in local_hosts
    )


def check_local_host(entry: str) -> str:
    """One entry of `local_hosts`: a host name, a private address, or a private network. Raises ValueError otherwise."""
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", entry):
            return entry
        raise ValueError(f"{entry!r} is neither a host name nor a network such as 192.168.1.0/24") from None
    if not network.is_private or network.prefixlen == 0:
        raise ValueError(f"{entry!r} is not a private network, so work sent there would leave")
    return entry


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_mapped_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped is not None and mapped.is_loopback


def _covers(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
