"""An LRU cache in memory, shared by the threads of a process. Knows nothing of its values."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.runtime.forking import reset_in_children

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key; the least recently used one is evicted first.

    When several threads need a missing value, one makes it and the others wait. A forked child starts empty, because a
    thread of its parent may hold a lock.

    Args:
        capacity: Maximum number of values.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, threading.Lock] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None if it is missing. Never waits for one that is being made."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Insert a value. Returns it, or the value that another thread inserted in the meantime."""
        with self._lock:
            value = self._values.setdefault(key, value)
            self._values.move_to_end(key)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)
        return value

    def put_if_room(self, key: K, value: V) -> None:
        """Insert a value as least recently used, if there is room."""
        with self._lock:
            if len(self._values) < self._capacity and key not in self._values:
                self._values[key] = value
                self._values.move_to_end(key, last=False)

    def has_room(self) -> bool:
        """Return whether ``put_if_room`` would insert a value."""
        with self._lock:
            return len(self._values) < self._capacity

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; ``make`` is called if it is missing. An exception of ``make`` is not cached."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            lock = self._making.setdefault(key, threading.Lock())
        with lock:
            try:
                found = self.get(key)
                return self.put(key, make()) if found is None else found
            finally:
                with self._lock:
                    self._making.pop(key, None)

    def remove(self, key: K) -> None:
        """Remove a value if it is there."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
