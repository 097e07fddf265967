"""One HTTP request and its answer, including redirects and errors. Knows nothing of its purpose.

For servers whose headers matter (Retry-After, Link, Location), which obstore does not show.
"""

import datetime
import email.utils
import http.client
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from penstock.store.remote.failures import PASSING_STATUS
from penstock.store.remote.retry import Failure, FailureKind


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response. Names of headers are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def redirect(self) -> str:
        """Full URL of the redirect's target; empty if there is none."""
        moved = self.status in (301, 302, 303, 307, 308)
        return urljoin(self.url, self.headers.get("location", "")) if moved else ""

    @property
    def next_page(self) -> str:
        """Full URL of the next page by the Link header; empty on the last page."""
        found = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', self.headers.get("link", ""))
        return urljoin(self.url, found[1]) if found else ""


class Refused(Exception):
    """The status is neither a success nor a redirect."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: urllib would send the token to the target, too."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def get(url: str, headers: Mapping[str, str], timeout: float) -> Answer:
    """Send one GET and return the whole answer.

    Args:
        timeout: Seconds without data.

    Raises:
        Refused: If the status is neither a success nor a redirect.
    """
    request = urllib.request.Request(url, headers=dict(headers))
    try:
        response = _opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as refusal:
        response = refusal
    with response:
        named = {name.lower(): value for name, value in response.headers.items()}
        answer = Answer(url, response.status, named, response.read())
    if answer.status >= 300 and not answer.redirect:
        raise Refused(answer)
    return answer


def same_host(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def asked_wait(headers: Mapping[str, str], now: datetime.datetime) -> float:
    """Return the seconds that a server asks to wait: Retry-After (seconds or a date), or the rate limit's reset."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    if value:
        try:
            return max(0.0, (email.utils.parsedate_to_datetime(value) - now).total_seconds())
        except (ValueError, TypeError):
            return 0.0
    spent = re.search(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", headers.get("ratelimit", ""))
    return float(spent[1]) if spent else 0.0


def explain(error: Exception) -> Failure:
    """Explain an error of ``get``."""
    if isinstance(error, Refused):
        answer = error.answer
        said = f"HTTP {answer.status}"
        if message := answer.headers.get("x-error-message", ""):
            said += f" ({message})"
        if answer.status in PASSING_STATUS:
            return Failure(
                FailureKind.PASSING, said, wait=asked_wait(answer.headers, datetime.datetime.now(datetime.UTC))
            )
        if answer.status in (401, 403):
            return Failure(FailureKind.DENIED, f"access denied: {said}")
        if answer.status == 404:
            return Failure(FailureKind.MISSING, f"not found: {said}")
        return Failure(FailureKind.FINAL, said)
    if isinstance(error, urllib.error.URLError):
        reason = error.reason if isinstance(error.reason, OSError) else None
        if "CERTIFICATE" in str(error.reason):
            return Failure(FailureKind.FINAL, "the server's TLS certificate is not trusted")
        unreached = isinstance(reason, ConnectionRefusedError | socket.gaierror)
        return Failure(FailureKind.PASSING, (reason and reason.strerror) or "connection failed", unreached=unreached)
    if isinstance(error, http.client.HTTPException | OSError):
        return Failure(FailureKind.PASSING, f"connection broken ({type(error).__name__})")
    return Failure(FailureKind.FINAL, f"{type(error).__name__}: {error}")
