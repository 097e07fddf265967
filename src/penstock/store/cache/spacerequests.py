"""Requests for space in a node cache: when a reader finds none, all processes unpin what they have pinned for later.

The request is the mtime of a file in the cache's folder. One thread per process polls it while there are subscribers.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from penstock.runtime.forking import reset_in_children
from penstock.runtime.owned import open_owned

POLL_SECONDS = 0.1

_Method = weakref.WeakMethod[Callable[[], None]]


class SpaceRequests:
    """Requests space in a node cache, and calls subscribers when another process requests it.

    Args:
        file: File whose mtime is the time of the last request.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without subscribers: a child has pinned nothing yet, and has no polling thread."""
        self._lock = threading.RLock()  # reentrant: garbage collection in this thread may remove a subscriber
        self._subscribers: list[_Method] = []
        self._thread: threading.Thread | None = None
        self._seen_ns = 0  # time of the last request that subscribers know of

    def subscribe(self, unpin: Callable[[], None]) -> Callable[[], None]:
        """Call a bound method at each request of any process, while the method's object is alive.

        Returns:
            A function that unsubscribes.
        """
        method = weakref.WeakMethod(unpin)
        with self._lock:
            self._subscribers = [*self._subscribers, method]
            if self._thread is None:
                self._seen_ns = self.last_request_ns()
                own = weakref.ref(self)
                self._thread = threading.Thread(target=_poll, args=(own,), name="penstock-space", daemon=True)
                self._thread.start()
        return lambda: self._unsubscribe(method)

    def _unsubscribe(self, method: _Method) -> None:
        with self._lock:
            self._subscribers = [each for each in self._subscribers if each is not method]

    def request(self) -> None:
        """Have this process at once, and all others of the node soon, unpin what they have pinned for later."""
        fd = open_owned(self._file, os.O_WRONLY | os.O_CREAT)
        with self._lock:  # so that the polling thread does not take it for the request of another process
            os.utime(fd)
            self._seen_ns = os.fstat(fd).st_mtime_ns
        os.close(fd)
        self.notify()

    def last_request_ns(self) -> int:
        """Return the time of the last request in ns; 0 if there was none."""
        try:
            return self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def is_requested(self) -> bool:
        """Return whether another process has requested space since the last call."""
        with self._lock:
            before = self._seen_ns
            self._seen_ns = self.last_request_ns()
            return self._seen_ns != before

    def notify(self) -> None:
        """Call all subscribers of this process."""
        for method in self._subscribers:
            unpin = method()
            if unpin is not None:
                unpin()

    def has_subscribers(self) -> bool:
        """Return whether subscribers are left; if not, the polling thread ends."""
        with self._lock:
            self._subscribers = [each for each in self._subscribers if each() is not None]
            if not self._subscribers:
                self._thread = None
            return bool(self._subscribers)


def _poll(requests: "weakref.ref[SpaceRequests]") -> None:
    while (here := requests()) is not None and here.has_subscribers():
        if here.is_requested():
            here.notify()
        del here  # so that this thread does not keep it alive while it sleeps
        time.sleep(POLL_SECONDS)
