import ipaddress
import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.remote.addresses import NotAllowed, TooSlow, connected, is_any, is_public

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
    "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_this_machine_and_network_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_any(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_however_it_is_written(address: ipaddress.IPv4Address) -> None:
    assert is_public(f"::ffff:{address}") == is_public(f"64:ff9b::{address}") == is_public(str(address))


def test_a_host_without_an_allowed_address_is_not_connected_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.setblocking(False)
        with pytest.raises(NotAllowed, match=r"127\.0\.0\.1"), connected("localhost", port, False, later(), is_public):
            pass
        with pytest.raises(BlockingIOError):
            server.accept()


def test_only_the_allowed_ones_of_several_addresses_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", port)) for last in (1, 2, 3)]
        resolve = socket.getaddrinfo
        names = {"example.org": found}  # a name server's answer; addresses are resolved as usual
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: names.get(host) or resolve(host, *a, **k))
        allowed = ("127.0.0.2", "127.0.0.3")
        with connected("example.org", port, False, later(), lambda address: address in allowed) as sock:
            assert sock.getpeername()[0] == "127.0.0.2"


def test_the_connection_is_cut_off_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        begun = time.monotonic()
        with pytest.raises(TooSlow), connected("127.0.0.1", port, False, begun + 0.3, is_any) as sock:
            assert sock.recv(1) == b""  # would wait for 10 s
        assert time.monotonic() - begun >= 0.3


def test_a_tls_handshake_is_cut_off_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        deadline = time.monotonic() + 0.3
        with pytest.raises(TooSlow), connected("127.0.0.1", server.getsockname()[1], True, deadline, is_any):
            raise AssertionError("a server that says nothing has no certificate")


def test_a_deadline_that_is_over_allows_nothing() -> None:
    with pytest.raises(TooSlow), connected("127.0.0.1", 9, False, time.monotonic() - 1, is_any):
        pass


def later() -> float:
    return time.monotonic() + 30
