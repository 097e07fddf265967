"""Fetches an untrusted URL, such as one in a record, within limits. Knows nothing of its purpose.

Proxies of the environment are not used: they would resolve the host's name themselves.
"""

import dataclasses
import http.client
import socket
import ssl
import time
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from penstock.store.remote import web
from penstock.store.remote.addresses import Allowed, NotAllowed, TooSlow, connected, is_public
from penstock.store.remote.failures import without_queries
from penstock.store.remote.retry import Failure, FailureKind, Retrier

MAX_REDIRECTS = 5
RETRY_SECONDS = 5.0  # a run has very many links: one is not worth a long wait
STRANGER_SECONDS = 2.0  # for a host that has never answered
BLOCK_BYTES = 1 << 16
HEADERS = {"User-Agent": "penstock", "Accept-Encoding": "identity", "Connection": "close"}
LITERAL = "/%:@!$&()*+,;=~?'"  # characters of a path or query that are not escaped


class _Refusal(Exception):
    """The URL breaks a rule of this module."""


class _Target(NamedTuple):
    secure: bool
    host: str
    port: int
    path: str
    host_header: str


def fetch(url: str, *, max_bytes: int, seconds: float, allowed: Allowed = is_public) -> bytes:
    """Return the content of a URL. Each redirect is checked like the URL itself.

    Args:
        url: URL that starts with http:// or https://.
        max_bytes: Maximum number of bytes that are read.
        seconds: Time limit of one try, redirects included. A try that fails at once is repeated for 5 seconds.
        allowed: Predicate of IP addresses.

    Raises:
        StoreError: If the URL is not a web address, leads to an address that is not allowed, is too large or takes too
            long; or if the host gives no answer, or another one than the content. The message shows no query.
    """

    def explain(error: Exception) -> Failure:
        if isinstance(error, TooSlow):
            return Failure(FailureKind.FINAL, f"not complete after {seconds:g} s")
        return _explain(error)

    retrier = Retrier(RETRY_SECONDS, STRANGER_SECONDS)
    return retrier.run(without_queries(url), lambda: _follow(url, max_bytes, seconds, allowed), explain)


def _follow(url: str, max_bytes: int, seconds: float, allowed: Allowed) -> bytes:
    deadline = time.monotonic() + seconds
    for _ in range(MAX_REDIRECTS + 1):
        answer = _get(url, max_bytes, deadline, allowed)
        if not answer.redirect:
            return answer.body
        url = answer.redirect
    raise _Refusal(f"it redirects more than {MAX_REDIRECTS} times")


def _get(url: str, max_bytes: int, deadline: float, allowed: Allowed) -> web.Answer:
    target = _parsed(url)
    connection = http.client.HTTPConnection(target.host, target.port)
    with connected(target.host, target.port, target.secure, deadline, allowed) as connection.sock:
        connection.request("GET", target.path, headers={**HEADERS, "Host": target.host_header})
        with connection.getresponse() as response:
            headers = {name.lower(): value for name, value in response.getheaders()}
            answer = web.Answer(url, response.status, headers, b"")
            if answer.redirect:
                return answer
            if answer.status != 200:
                raise web.Refused(answer)
            return dataclasses.replace(answer, body=_body(response, max_bytes))


def _parsed(url: str) -> _Target:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
    except ValueError as error:
        raise _Refusal(f"not a valid URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise _Refusal(f"{without_queries(url)!r} is not an http:// or https:// URL without a user name")
    path = quote(parts.path or "/", safe=LITERAL)
    if parts.query:
        path += "?" + quote(parts.query, safe=LITERAL)
    named = f"[{host}]" if ":" in host else host
    return _Target(secure, host, port, path, f"{named}:{parts.port}" if parts.port else named)


def _body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    expected = response.length
    if expected is not None and expected > max_bytes:
        raise _Refusal(f"it has {expected:,} bytes, more than the limit of {max_bytes:,}")
    blocks = []
    size = 0
    while block := response.read(BLOCK_BYTES):
        blocks.append(block)
        size += len(block)
        if size > max_bytes:
            raise _Refusal(f"it has more than the limit of {max_bytes:,} bytes")
    if expected is not None and size < expected:
        raise ConnectionError("the connection was closed early")
    return b"".join(blocks)


def _explain(error: Exception) -> Failure:
    """Explain an error of ``_follow``."""
    if isinstance(error, _Refusal):
        return Failure(FailureKind.FINAL, str(error))
    if isinstance(error, NotAllowed):
        return Failure(
            FailureKind.FINAL, f"it leads to {error}, not to a public address; allow_private: true allows it"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(FailureKind.FINAL, "the server's TLS certificate is not trusted")
    if isinstance(error, socket.gaierror):
        return Failure(FailureKind.PASSING, "the host name was not found (DNS)", unreached=True)
    if isinstance(error, ConnectionRefusedError):
        return Failure(FailureKind.PASSING, "connection refused", unreached=True)
    if isinstance(error, http.client.InvalidURL | UnicodeError):
        return Failure(FailureKind.FINAL, "not a valid URL")
    # A link is not worth the minutes that a host may ask to wait.
    return dataclasses.replace(web.explain(error), wait=0.0)
