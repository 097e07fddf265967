"""Connections to untrusted hosts, at public addresses only. Knows no HTTP.

The host's name is resolved here, and the connection goes to an address that was checked: a name server cannot give
another one in between.
"""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

IDLE_SECONDS = 10.0  # without a byte
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # the last 4 bytes are an IPv4 address
UNICAST = ipaddress.ip_network("2000::/3")  # all public addresses of IPv6

Allowed = Callable[[str], bool]
"""Predicate: whether to connect to an IP address."""


class NotAllowed(Exception):
    """The host has no address to which a connection is allowed."""


class TooSlow(Exception):
    """The deadline of a connection has passed."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet: not loopback, private, link-local or reserved."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip.is_global and not ip.is_multicast
    inner = ip.ipv4_mapped or (ipaddress.IPv4Address(ip.packed[-4:]) if ip in NAT64 else None)
    if inner is not None:
        return is_public(str(inner))
    # 6to4 and Teredo addresses also stand for IPv4 addresses. Nothing is served there.
    return ip in UNICAST and ip.is_global and ip.sixtofour is None and ip.teredo is None


def is_any(address: str) -> bool:  # noqa: ARG001
    """Allow every address."""
    return True


@contextmanager
def connected(host: str, port: int, secure: bool, deadline: float, allowed: Allowed) -> Iterator[socket.socket]:
    """Connect to an allowed address of a host. The connection is cut off at the deadline, whatever the host does.

    Args:
        host: Name or address.
        port: TCP port.
        secure: Whether to use TLS, with a certificate for ``host``.
        deadline: Deadline on the monotonic clock.
        allowed: Predicate of IP addresses.

    Raises:
        NotAllowed: If the host has no allowed address.
        TooSlow: If the block did not end before the deadline.
        OSError: If the host does not answer, or its certificate is not trusted.
    """
    plain = _connect(host, port, deadline, allowed)
    # The handshake comes below: it must not outlast the deadline either.
    wrapped = _tls().wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False) if secure else plain
    over = threading.Event()

    def cut_off() -> None:
        over.set()
        with suppress(OSError):
            socket.socket.shutdown(wrapped, socket.SHUT_RDWR)  # wakes the thread that reads

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), cut_off)
    timer.daemon = True
    timer.start()
    try:
        with wrapped:
            if isinstance(wrapped, ssl.SSLSocket):
                wrapped.do_handshake()
            yield wrapped
    except Exception:
        if not over.is_set():
            raise
    finally:
        timer.cancel()
    if over.is_set():  # what was read may be incomplete
        raise TooSlow


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()  # reads all certificates of this machine: 10 ms


def _connect(host: str, port: int, deadline: float, allowed: Allowed) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    open_to = [address for address in addresses if allowed(address)]
    if not open_to:
        raise NotAllowed(", ".join(addresses))
    failure: OSError = OSError()
    for address in open_to:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TooSlow
        try:
            connection = socket.create_connection((address, port), timeout=min(IDLE_SECONDS, left))
        except OSError as error:
            failure = error
        else:
            connection.settimeout(IDLE_SECONDS)
            return connection
    raise failure
