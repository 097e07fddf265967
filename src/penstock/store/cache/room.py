"""Asking for room: when a reader finds none, all processes of the node unpin what they have pinned for later.

The request is the mtime of a file in the cache's folder. One thread per process polls it while there are listeners.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.runtime.forking import reset_in_children
from penstock.runtime.owned import open_owned

_LOOK_SECONDS = 0.1


class Room:
    """Asks for room in a node cache, and listens for requests of others."""

    def __init__(self, note: Path) -> None:
        self._note = note
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without listeners: a child has pinned nothing yet, and has no polling thread."""
        self._lock = threading.RLock()  # reentrant: garbage collection in this thread may remove a listener
        self._heeding: list[weakref.WeakMethod[Any]] = []
        self._thread: threading.Thread | None = None

    def heed(self, let_go: Callable[[], None]) -> Callable[[], None]:
        """Call a method when a reader of any process finds no room, for as long as the method's object lives.

        Returns:
            A function that ends it.
        """
        method = weakref.WeakMethod(let_go)
        with self._lock:
            self._heeding = [*self._heeding, method]
            if self._thread is None:
                arguments = (weakref.ref(self), self.asked())
                self._thread = threading.Thread(target=_look, args=arguments, name="penstock-room", daemon=True)
                self._thread.start()
        return lambda: self._unheed(method)

    def _unheed(self, method: "weakref.WeakMethod[Any]") -> None:
        with self._lock:
            self._heeding = [each for each in self._heeding if each is not method]

    def ask(self) -> None:
        """Have this process at once, and all others of the node soon, unpin what they have pinned for later."""
        fd = open_owned(self._note, os.O_WRONLY | os.O_CREAT)
        os.utime(fd)
        os.close(fd)
        self.let_go()

    def asked(self) -> int:
        """Return when room was last asked for, in ns; 0 for never."""
        try:
            return self._note.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def let_go(self) -> None:
        """Call all listeners of this process."""
        for method in self._heeding:
            let_go = method()
            if let_go is not None:
                let_go()

    def is_heeded(self) -> bool:
        """Whether listeners are left; if not, the polling thread ends."""
        with self._lock:
            self._heeding = [each for each in self._heeding if each() is not None]
            if not self._heeding:
                self._thread = None
            return bool(self._heeding)


def _look(room: "weakref.ref[Room]", seen: int) -> None:
    while (here := room()) is not None and here.is_heeded():
        asked = here.asked()
        if asked != seen:
            seen = asked
            here.let_go()
        del here  # so that this thread does not keep it alive while it sleeps
        time.sleep(_LOOK_SECONDS)
