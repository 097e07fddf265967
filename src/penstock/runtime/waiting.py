"""What this process is waiting for, so that a step that takes long can say so."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.runtime.forking import reset_in_children


class _Waits:
    """Waits under way: what for, and since when. Adding and removing one takes no lock."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """A forked child has none of the threads that wait."""
        self.under_way: dict[object, tuple[str, float]] = {}


_waits = _Waits()


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Within the block, this thread waits for something."""
    under_way = _waits.under_way
    key = object()
    under_way[key] = (what, time.monotonic())
    try:
        yield
    finally:
        under_way.pop(key, None)


def waits() -> list[tuple[str, float]]:
    """Return what the threads of this process wait for, and for how many seconds; the longest wait first."""
    now = time.monotonic()
    found = [(what, now - since) for what, since in list(_waits.under_way.values())]
    return sorted(found, key=lambda wait: -wait[1])
