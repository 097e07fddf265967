"""Retries of requests: how long to wait, when to give up. Knows no store's own errors.

obstore's own retries ignore Retry-After, and can neither be counted, logged nor limited in rate, so they are off.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from penstock.runtime.waiting import waiting_for
from penstock.store.remote.remote import AccessDenied, ObjectChanged, ObjectMissing, StoreError, StoreUnavailable

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 10.0
# A host that has never answered is more likely misspelt than busy.
STRANGER_SECONDS = 10.0
# Waits that a server asks for (the hub counts in windows of 5 minutes) are added to our own limit, up to this.
MOST_ASKED_SECONDS = 900.0
# Beyond these a retry is a warning; earlier ones are common.
LOUD_TRIES = 3
LOUD_SECONDS = 5.0


class FailureKind(Enum):
    """Kind of a failure. The value is the error to raise."""

    PASSING = StoreUnavailable
    MISSING = ObjectMissing
    DENIED = AccessDenied
    CHANGED = ObjectChanged
    FINAL = StoreError


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request, described without secrets.

    Attributes:
        unreached: Whether no server answered.
        wait: Seconds that the server asked to wait.
    """

    kind: FailureKind
    cause: str
    unreached: bool = False
    wait: float = 0.0


def backoff(attempt: int, draw: float) -> float:
    """Return the seconds to wait after attempt 1, 2, …: doubling up to a cap, with jitter by ``draw`` in [0, 1)."""
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(attempt - 1, 30)) * (0.5 + draw / 2))


class Retrier:
    """Runs requests and retries failures that can pass. ``count`` is the number of retries.

    Args:
        seconds: Time during which a request is retried.
        stranger_seconds: The same for a host that has never answered.
    """

    def __init__(self, seconds: float, stranger_seconds: float = STRANGER_SECONDS) -> None:
        self._seconds = seconds
        self._stranger_seconds = min(seconds, stranger_seconds)
        self._reached = False
        self._counting = threading.Lock()
        self.count = 0

    def run(self, name: str, request: Callable[[], T], explain: Callable[[Exception], Failure]) -> T:
        """Run a request, with retries.

        Args:
            name: URL, for messages.
            request: Function that sends the request once.
            explain: Function that turns its exception into a failure.

        Raises:
            StoreError: Subclass by the kind of the failure; ``StoreUnavailable`` if retries did not help.
        """
        with waiting_for(name):
            return self._run(name, request, explain)

    def _run(self, name: str, request: Callable[[], T], explain: Callable[[Exception], Failure]) -> T:
        start = time.monotonic()
        attempt = 0
        asked = 0.0
        while True:
            attempt += 1
            try:
                result = request()
            except Exception as error:
                failure = explain(error)
            else:
                self._reached = True
                return result
            # Raised outside of the except block, so that the store's own text, which may contain a signed URL, is not
            # chained to it.
            self._reached = self._reached or not failure.unreached
            # Also after a wait that the server asked for, so that the nodes of a job do not all come back at once.
            wait = failure.wait + backoff(attempt, random.random())
            spent = time.monotonic() - start
            asked += failure.wait
            patience = self._seconds if self._reached else self._stranger_seconds
            if failure.kind is not FailureKind.PASSING:
                raise failure.kind.value(f"{name}: {failure.cause}")
            if spent + wait > patience + min(asked, MOST_ASKED_SECONDS):
                raise StoreUnavailable(f"{name}: {failure.cause}; gave up after {attempt} tries in {spent:.1f} s")
            with self._counting:
                self.count += 1
            loud = attempt > LOUD_TRIES or spent > LOUD_SECONDS
            log.log(
                logging.WARNING if loud else logging.INFO,
                "%s: %s after %.1f s; retrying in %.1f s",
                name,
                failure.cause,
                spent,
                wait,
            )
            time.sleep(wait)
