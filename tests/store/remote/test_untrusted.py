"""URLs from records, against real servers on loopback: 127.0.0.1 stands for a public address, 127.0.0.2 for another."""

import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from penstock.store.remote import addresses, untrusted
from penstock.store.remote.addresses import is_any
from penstock.store.remote.remote import AccessDenied, ObjectMissing, StoreError, StoreUnavailable
from penstock.store.remote.untrusted import fetch
from tests.servers.stranger import Stranger, whole

BODY = b"some bytes of an image" * 1_000


def only_one(address: str) -> bool:
    """As if 127.0.0.1 were a public address, and all others were not."""
    return address == "127.0.0.1"


def get(url: str, max_bytes: int = 1 << 20, seconds: float = 10.0) -> bytes:
    return fetch(url, max_bytes=max_bytes, seconds=seconds, allowed=only_one)


def test_the_content_of_a_url_is_returned() -> None:
    with Stranger(whole(BODY)) as host:
        assert get(f"{host.url}/a b/ü.jpg?size=large&key=%20x y#part") == BODY
        assert host.asked == ["/a%20b/%C3%BC.jpg?size=large&key=%20x%20y"]
        assert f"\r\nHost: {host.url.removeprefix('http://')}\r\n" in host.heads[0]
        assert get(host.url) == BODY
        assert host.asked[1] == "/"


def test_chunks_and_bodies_without_a_length_are_read() -> None:
    def chunked(_: str, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n, x\r\n0\r\n\r\n")

    def open_ended(_: str, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")

    for answer, expected in ((chunked, b"hello, x"), (open_ended, b"hello")):
        with Stranger(answer) as host:
            assert get(host.url) == expected


def test_private_addresses_are_refused_by_default_and_nothing_is_sent() -> None:
    with Stranger(whole(BODY)) as host:
        port = host.url.rpartition(":")[2]
        for name in ("127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]", "0"):
            with pytest.raises(StoreError, match=r"not to a public address; allow_private: true allows it"):
                fetch(f"http://{name}:{port}/", max_bytes=1 << 20, seconds=10)
        assert host.asked == []
        assert fetch(host.url, max_bytes=1 << 20, seconds=10, allowed=is_any) == BODY


def test_each_redirect_is_checked_like_the_url_itself() -> None:
    with Stranger(whole(BODY)) as host, Stranger(whole(b"secret"), host="127.0.0.2") as private:
        assert get(f"{host.url}/redirect?{host.url}/redirect?/image.jpg") == BODY
        with pytest.raises(StoreError, match=r"it leads to 127.0.0.2, not to a public address"):
            get(f"{host.url}/redirect?{private.url}/metadata")
        for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:word@127.0.0.1/x", "//127.0.0.2:1/"):
            with pytest.raises(StoreError, match=r"is not an http:// or https:// URL|not to a public address"):
                get(f"{host.url}/redirect?{target}")
        assert private.asked == []


def test_redirects_in_a_circle_end() -> None:
    def again(_: str, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 301 Moved\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")

    with Stranger(again) as host:
        with pytest.raises(StoreError, match="it redirects more than 5 times"):
            get(host.url)
        assert len(host.asked) == 6


@pytest.mark.parametrize(
    ("status", "kind", "sentence"),
    [
        ("404 Not Found", ObjectMissing, "not found: HTTP 404"),
        ("410 Gone", StoreError, "HTTP 410"),
        ("403 Forbidden", AccessDenied, "access denied: HTTP 403"),
        ("204 No Content", StoreError, "HTTP 204"),
    ],
)
def test_a_dead_url_fails_at_once_with_the_status(status: str, kind: type[Exception], sentence: str) -> None:
    with Stranger(whole(b"gone", status)) as host:
        with pytest.raises(kind, match=sentence):
            get(host.url)
        assert len(host.asked) == 1


def test_what_can_pass_is_tried_again_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [whole(b"", "503 Busy", "Retry-After: 3600"), lambda _, connection: None, whole(BODY)]

    with Stranger(lambda path, connection: answers.pop(0)(path, connection)) as host:
        assert get(host.url) == BODY
        assert len(host.asked) == 3
    monkeypatch.setattr(untrusted, "RETRY_SECONDS", 0.5)
    with Stranger(whole(b"", "429 Slow", "Retry-After: 3600")) as host:
        with pytest.raises(StoreUnavailable, match=r"HTTP 429; gave up after"):
            get(host.url)
        assert len(host.asked) >= 2


def test_a_body_that_ends_early_is_not_taken_for_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "RETRY_SECONDS", 0.3)

    def short(_: str, connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")

    with Stranger(short) as host, pytest.raises(StoreUnavailable, match="connection broken"):
        get(host.url)


def test_too_much_is_refused_before_it_is_read_or_as_it_comes() -> None:
    sent = 0

    def endless(_: str, connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            sent += connection.send(bytes(1 << 16))

    with Stranger(whole(BODY)) as host:
        assert get(host.url, max_bytes=len(BODY)) == BODY
        with pytest.raises(StoreError, match=r"it has 22,000 bytes, more than the limit of 21,999"):
            get(host.url, max_bytes=len(BODY) - 1)
    with Stranger(endless) as host, pytest.raises(StoreError, match=r"more than the limit of 1,000,000 bytes"):
        get(host.url, max_bytes=1_000_000)
    assert sent < 64 << 20  # and what buffers between the two hold


def test_a_host_that_drips_is_cut_off_in_the_head_and_in_the_body() -> None:
    def drip(head: bytes, drop: bytes) -> object:
        def answer(_: str, connection: socket.socket) -> None:
            connection.sendall(head)
            while True:
                connection.sendall(drop)
                time.sleep(0.05)

        return answer

    for answer in (
        drip(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b"x"),
        lambda _, connection: time.sleep(5),
    ):
        with Stranger(answer) as host, pytest.raises(StoreError, match=r"not complete after 0.4 s"):
            get(host.url, seconds=0.4)
        assert len(host.asked) == 1  # it had its time: no second try


def test_a_host_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "STRANGER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(StoreUnavailable, match="connection refused; gave up"):
        get(f"http://127.0.0.1:{port}/x")
    with pytest.raises(StoreUnavailable, match=r"name was not found \(DNS\); gave up"):
        get("http://no-such-host.invalid/x")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http:///x",
        "http://",
        "http://user@127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:x/",
        "http://[::1/",
        f"http://{'a' * 70}.org/",
        "gopher://127.0.0.1:70/_x",
        "no url",
    ],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=r"is not an http:// or https:// URL|not a valid URL"):
        get(url)


def test_line_breaks_in_a_url_make_no_second_header() -> None:
    with Stranger(whole(BODY)) as host:
        get(f"{host.url}/x HTTP/1.1\r\nX-Evil: yes\r\n\r\n")
        assert "X-Evil: yes" not in host.heads[0].split("\r\n")


def test_messages_show_no_signature() -> None:
    with Stranger(whole(b"", "403 Forbidden")) as host, pytest.raises(AccessDenied) as error:
        get(f"{host.url}/image.jpg?X-Amz-Signature=secret")
    assert "secret" not in str(error.value) and "/image.jpg" in str(error.value)


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stranger(whole(BODY)) as host, Stranger(whole(b"proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert get(host.url) == BODY
        assert proxy.asked == []


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that only those trust who are told to."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-days", "1"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    try:
        subprocess.run(make, cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs the program openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return tmp_path / "cert.pem", context


def test_a_certificate_must_be_trusted_and_name_the_host(
    certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = certificate
    with Stranger(whole(BODY), tls=context) as host:
        with pytest.raises(StoreError, match="certificate is not trusted"):
            get(host.url)
        trusting = ssl.create_default_context(cafile=path)
        monkeypatch.setattr(addresses, "_tls", lambda: trusting)
        assert get(host.url) == BODY
        with pytest.raises(StoreError, match="certificate is not trusted"):
            get(host.url.replace("127.0.0.1", "localhost"))
        assert host.asked == ["/"]
