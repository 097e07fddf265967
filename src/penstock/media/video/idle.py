"""An LRU cache of decoders that wait for the next batch. None crosses a fork."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from penstock.runtime.counting import SharedCounters
from penstock.runtime.forking import reset_in_children

MIN_DECODERS = 16  # one for each thread that decodes at the same time
MAX_DECODERS = 128

K = TypeVar("K", bound=Hashable)
D = TypeVar("D")


class IdleDecoders(Generic[K, D]):
    """Idle decoders by what they decode. Thread-safe; a decoder serves one thread at a time.

    Args:
        max_size: Number of idle decoders to keep; see ``resize``.

    Attributes:
        max_size: Number of idle decoders to keep.
    """

    def __init__(self, max_size: int = MAX_DECODERS) -> None:
        self.resize(max_size)
        self._counts = SharedCounters("hits", "misses", "evictions")
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Drop the decoders in a forked child, where they do not work."""
        self._lock = threading.Lock()
        self._idle: OrderedDict[K, list[D]] = OrderedDict()

    def __getstate__(self) -> dict[str, object]:
        return {"max_size": self.max_size, "_counts": self._counts}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.reset_after_fork()
        reset_in_children(self)

    def resize(self, capacity: int) -> None:
        """Set how many idle decoders are kept, within ``MIN_DECODERS`` and ``MAX_DECODERS``."""
        self.max_size = max(MIN_DECODERS, min(capacity, MAX_DECODERS))

    def stats(self) -> dict[str, int]:
        """Return hits, misses and evictions over all threads and worker processes."""
        return self._counts.totals()

    def size(self) -> int:
        """Return the number of idle decoders of this process."""
        with self._lock:
            return self._size()

    def clear(self) -> None:
        with self._lock:
            self._idle.clear()

    def _take_idle(self, key: K) -> D | None:
        """Return an idle decoder, or None if one must be made."""
        with self._lock:
            found = self._idle.pop(key, [])
            decoder = found.pop() if found else None
            if found:
                self._idle[key] = found
        self._counts.add("misses" if decoder is None else "hits")
        return decoder

    def _keep(self, decoders: Iterable[tuple[K, D]]) -> None:
        """Keep decoders, and evict the least recently used ones."""
        with self._lock:
            for key, decoder in decoders:
                self._idle.setdefault(key, []).append(decoder)
                self._idle.move_to_end(key)
            while self._size() > self.max_size:
                key, found = next(iter(self._idle.items()))
                del found[0]
                self._counts.add("evictions")
                if not found:
                    del self._idle[key]

    def _size(self) -> int:
        return sum(map(len, self._idle.values()))
