"""The latest results of a slow call, shared by the threads of a process. Knows nothing of the results."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.runtime.forking import reset_in_children

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """An LRU of results by key. If several threads need the same one, a single thread makes it and the others wait.

    A forked child starts empty: a thread of its parent may be at work on a result.

    Args:
        capacity: results that are kept.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[K, V] = OrderedDict()
        self._turns: dict[K, threading.Lock] = {}

    def get(self, key: K) -> V | None:
        """Return a result if it is kept, else None. Never waits for one that is being made."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a result. Returns it, or the one that another thread has put in the meantime."""
        with self._lock:
            value = self._known.setdefault(key, value)
            self._known.move_to_end(key)
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return value

    def put_if_room(self, key: K, value: V) -> None:
        """Keep a result that nobody has asked for yet, as the first to go, unless others would have to go for it."""
        with self._lock:
            if len(self._known) < self._capacity and key not in self._known:
                self._known[key] = value
                self._known.move_to_end(key, last=False)

    def has_room(self) -> bool:
        """Return whether ``put_if_room`` would keep something."""
        with self._lock:
            return len(self._known) < self._capacity

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return a result; ``make`` is called if it is not kept. An exception of ``make`` is raised and not kept."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            try:
                found = self.get(key)
                return self.put(key, make()) if found is None else found
            finally:
                with self._lock:
                    self._turns.pop(key, None)

    def forget(self, key: K) -> None:
        """Drop a result: it is made again when it is needed."""
        with self._lock:
            self._known.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
