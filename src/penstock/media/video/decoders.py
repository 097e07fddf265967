"""Decoders that are kept for the next batch, and how often that helped. None crosses a fork."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.readers.mp4.track import Coding
from penstock.runtime.counting import Counting
from penstock.runtime.forking import reset_in_children

if TYPE_CHECKING:
    from penstock.media.video.decoder import Decoder

FEWEST_DECODERS = 16  # one for each thread that decodes at the same time
MOST_DECODERS = 128


class Decoders:
    """Idle decoders by coding. Any number of threads may use it; each decoder serves one of them at a time.

    Args:
        max_size: idle decoders that are kept; see ``resize``.

    Attributes:
        max_size: idle decoders that are kept.
    """

    def __init__(self, max_size: int = MOST_DECODERS) -> None:
        self.resize(max_size)
        self._counts = Counting("hits", "misses", "evictions")
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[Coding, list[Decoder]] = OrderedDict()

    def __getstate__(self) -> dict[str, object]:
        return {"max_size": self.max_size, "_counts": self._counts}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.reset_after_fork()
        reset_in_children(self)

    def resize(self, capacity: int) -> None:
        """Set how many idle decoders are kept, within ``FEWEST_DECODERS`` and ``MOST_DECODERS``."""
        self.max_size = max(FEWEST_DECODERS, min(capacity, MOST_DECODERS))

    def stats(self) -> dict[str, int]:
        """Return how often a decoder was reused, made and dropped, over all threads and worker processes."""
        return self._counts.totals()

    def size(self) -> int:
        """Return the number of idle decoders of this process."""
        with self._lock:
            return sum(map(len, self._idle.values()))

    @contextmanager
    def lent(self) -> "Iterator[Lent]":
        """Lend decoders to one thread, for as long as the block lasts. They are kept for others afterwards."""
        lent = Lent(self)
        try:
            yield lent
        except BaseException:
            lent.decoders.clear()  # one of them may be in the midst of a frame
            raise
        finally:
            self._give_back(lent)

    def take(self, coding: Coding) -> "Decoder":
        """Return an idle decoder, or make one."""
        with self._lock:
            idle = self._idle.get(coding)
            if idle:
                self._counts.add("hits")
                self._idle.move_to_end(coding)
                return idle.pop()
        from penstock.media.video.decoder import Decoder  # imports av

        self._counts.add("misses")
        return Decoder(coding)

    def _give_back(self, lent: "Lent") -> None:
        self._counts.add("hits", lent.reused)
        with self._lock:
            for coding, decoder in lent.decoders.items():
                self._idle.setdefault(coding, []).append(decoder)
                self._idle.move_to_end(coding)
            while sum(map(len, self._idle.values())) > self.max_size:
                coding = next(coding for coding, own in self._idle.items() if own)
                self._idle[coding].pop(0)
                self._counts.add("evictions")
                if not self._idle[coding]:
                    del self._idle[coding]

    def clear(self) -> None:
        with self._lock:
            self._idle.clear()


class Lent:
    """Decoders that one thread has, one per coding.

    Attributes:
        decoders: by coding.
        reused: how often one of them was asked for again.
    """

    def __init__(self, all_decoders: Decoders) -> None:
        self._all = all_decoders
        self.decoders: dict[Coding, Decoder] = {}
        self.reused = 0

    def get(self, coding: Coding) -> "Decoder":
        """Return the decoder of a coding."""
        found = self.decoders.get(coding)
        if found is None:
            found = self._all.take(coding)
            self.decoders[coding] = found
        else:
            self.reused += 1
        return found

    def drop(self, coding: Coding) -> None:
        """Give up a decoder that failed."""
        self.decoders.pop(coding, None)
