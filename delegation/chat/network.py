"""Sockets that can be interrupted: no wait for a peer outlives a cancellation or the deadline.

It also keeps the list of what was really connected to, and asks before it connects to an address.
"""

import errno
import ipaddress
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeVar

import httpcore
import httpx

from delegation.errors import Cancelled

# How soon a waiting socket notices a cancellation.
SLICE_SECONDS = 0.05
# (host asked for, address it has) -> why it may not be connected to, or None.
Guard = Callable[[str, str], str | None]
_Done = TypeVar("_Done")


class DeadlineReached(Exception):
    """The moment by which the reply had to be there has come."""


class AddressRefused(Exception):
    """The guard did not allow the address."""


@dataclass
class Patience:
    """How long the socket at work may wait, and who may interrupt it. Set anew for every reply."""

    deadline: float = float("inf")
    cancelled: Event = field(default_factory=Event)

    def check(self) -> None:
        """Raises Cancelled or DeadlineReached."""
        if self.cancelled.is_set():
            raise Cancelled("the reply was cancelled")
        if time.monotonic() >= self.deadline:
            raise DeadlineReached

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def hurry(self, seconds: float) -> None:
        """Bring the deadline forward, if it is further away than so many seconds."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait so long. Raises Cancelled or DeadlineReached as soon as that is so."""
        self.cancelled.wait(max(0.0, min(seconds, self.left())))
        self.check()


class PatientTransport(httpx.HTTPTransport):
    """httpx over our sockets. `contacted` gets host:port of every connection that was made."""

    def __init__(
        self,
        patience: Patience,
        guard: Guard,
        contacted: Callable[[str, int], None],
        *,
        tls: bool,
        proxy: str | None = None,
    ) -> None:
        context = httpx.create_ssl_context() if tls else False  # reading the certificates takes 30 ms
        super().__init__(verify=context)
        backend = _Backend(patience, guard, contacted)
        self._pool.close()
        self._pool = httpcore.ConnectionPool(
            ssl_context=context or None,
            network_backend=backend,
            keepalive_expiry=60.0,
            proxy=httpcore.Proxy(proxy) if proxy else None,
        )


class _Backend(httpcore.NetworkBackend):
    def __init__(self, patience: Patience, guard: Guard, contacted: Callable[[str, int], None]) -> None:
        self._patience = patience
        self._guard = guard
        self._contacted = contacted

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        del local_address, socket_options  # never set by this client
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError(f"the name {host!r} has no address ({error})") from error
        allowed = self._allowed(host, addresses)
        connected = _first_connected(allowed, timeout, self._patience)
        self._contacted(host, port)
        return _Stream(connected, self._patience)

    def _allowed(self, host: str, addresses: Sequence[Any]) -> list[Any]:
        """Addresses that the guard lets through; one that it refuses hides nothing: then none is tried."""
        for entry in addresses:
            if (reason := self._guard(host, str(entry[4][0]))) is not None:
                raise AddressRefused(reason)
        return list(addresses)

    def sleep(self, seconds: float) -> None:
        self._patience.sleep(seconds)


def _first_connected(addresses: Sequence[Any], timeout: float | None, patience: Patience) -> socket.socket:
    failed: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        connection = socket.socket(family, kind, protocol)
        try:
            _connect(connection, address, timeout, patience)
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    if isinstance(failed, TimeoutError):
        raise httpcore.ConnectTimeout(str(failed)) from failed
    raise httpcore.ConnectError(str(failed)) from failed


def _connect(connection: socket.socket, address: Any, timeout: float | None, patience: Patience) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    started = connection.connect_ex(address)
    if started not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
        raise OSError(started, os.strerror(started))
    _wait(patience, timeout, lambda seconds: _settled(connection, seconds))
    if failure := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(failure, os.strerror(failure))


def _settled(connection: socket.socket, seconds: float) -> bool:
    return _ready(connection, selectors.EVENT_WRITE, seconds)


def _ready(connection: socket.socket, what: int, seconds: float) -> bool:
    """Whether the socket can go on; not by `select`, which knows only the first thousand descriptors."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, what)
        return bool(selector.select(seconds))


def _wait(patience: Patience, timeout: float | None, ready: Callable[[float], bool]) -> None:
    """Until `ready`, asked in slices. Raises TimeoutError, Cancelled or DeadlineReached."""
    end = time.monotonic() + (timeout if timeout is not None else float("inf"))
    while True:
        patience.check()
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing happened for {timeout:g} s")
        if ready(min(left, SLICE_SECONDS)):
            return


class _Stream(httpcore.NetworkStream):
    def __init__(self, connection: socket.socket, patience: Patience) -> None:
        self._socket = connection
        self._patience = patience

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self._in_slices(timeout, lambda: self._socket.recv(max_bytes))
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        try:
            while rest:
                piece = rest
                rest = rest[self._in_slices(timeout, lambda piece=piece: self._socket.send(piece)) :]
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def _in_slices(self, timeout: float | None, act: Callable[[], _Done]) -> _Done:
        """Try again after every slice without result; a secure socket may want several slices for one record."""
        end = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while True:
            self._patience.check()
            self._socket.settimeout(max(0.001, min(SLICE_SECONDS, end - time.monotonic())))
            try:
                return act()
            except (TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if time.monotonic() >= end:
                    raise TimeoutError(f"nothing came for {timeout:g} s") from None

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._socket.settimeout(timeout)
        try:
            return _Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._patience)
        except OSError as error:
            self.close()
            raise httpcore.ConnectError(f"no secure connection: {error}") from error

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "socket":
                return self._socket
            case "ssl_object":
                return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
            case "server_addr":
                return self._socket.getpeername()
            case "client_addr":
                return self._socket.getsockname()
            case "is_readable":
                return _ready(self._socket, selectors.EVENT_READ, 0)
            case _:
                return None


def local_only(allow_hosts: Sequence[str]) -> Guard:
    """Loopback, and what is listed: names, addresses, or networks such as `192.168.1.0/24`."""
    listed = frozenset(allow_hosts)

    def guard(host: str, address: str) -> str | None:
        if ipaddress.ip_address(_bare(address)).is_loopback or is_listed(host, address, listed):
            return None
        return f"{host!r} is {address}, neither this machine nor listed as private: lane 'local' never leaves"

    return guard


# Metadata services that are not link-local: AWS over IPv6, Alibaba, Azure's host, Oracle's second one.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def no_metadata(allow_hosts: Sequence[str]) -> Guard:
    """Anything but link-local addresses and metadata services of clouds, unless listed."""
    listed = frozenset(allow_hosts)

    def guard(host: str, address: str) -> str | None:
        if not any(map(_serves_the_machine, _meanings(address))) or is_listed(host, address, listed):
            return None
        return f"{host!r} is {address}, where only services of the machine itself answer"

    return guard


def _serves_the_machine(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def _meanings(address: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The address, and the IPv4 address inside one that a translator on the way would send it to."""
    bare = ipaddress.ip_address(_bare(address))
    if isinstance(bare, ipaddress.IPv4Address):
        return [bare]
    inner = [ipaddress.IPv4Address(int(bare) & 0xFFFFFFFF)] if bare in _NAT64 else []
    return [bare, *inner, *([bare.sixtofour] if bare.sixtofour else [])]


def is_listed(host: str, address: str, listed: Iterable[str]) -> bool:
    """Whether the host or its address is in a list of names, addresses and networks."""
    return any(entry == host or _contains(entry, address) for entry in listed)


def _contains(entry: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(_bare(address)) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


def _bare(address: str) -> str:
    """Without a zone, and an IPv4 address mapped into IPv6 as what it is."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)
