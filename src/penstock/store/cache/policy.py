"""What the node cache admits, evicts and requests: functions of sizes and times of use.

The cache and ``penstock simulate`` use the same functions. Knows no files, locks or clocks.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

# Adjacent parts are fetched in one request, up to this many bytes.
REQUEST_BYTES = 8 << 20
EVICTED_TIME = 1
"""Time of use of an entry that is evicted before all others."""
_FULL_ENOUGH = 0.95  # share of the bound to evict down to

Run = tuple[int, int]  # parts first .. last-1


class Sized(Protocol):
    """An entry of the cache."""

    @property
    def size(self) -> int: ...


SizedEntry = TypeVar("SizedEntry", bound=Sized)
Wanted = TypeVar("Wanted", bound=Hashable)


class Room(NamedTuple):
    """What is in the cache after a call of ``make_room``.

    Attributes:
        held: Upper bound of the bytes in the cache.
        pinned: Bytes that could not be evicted.
    """

    held: int
    pinned: int


def fits(held: int, size: int, max_bytes: int) -> bool:
    """Return whether ``size`` more bytes fit beside those in the cache."""
    return held + size <= max_bytes


def make_room(
    held: int | None,
    size: int,
    max_bytes: int,
    entries: Callable[[], Sequence[SizedEntry]],
    evict: Callable[[SizedEntry], bool],
) -> Room:
    """Evict the least recently used entries if ``size`` more bytes would not fit.

    A little more than needed is evicted, so that it is rare.

    Args:
        held: Upper bound of the bytes in the cache; None if it is unknown.
        size: Bytes to make room for.
        max_bytes: Bound of the cache.
        entries: Returns all entries, least recently used first.
        evict: Evicts an entry unless it is pinned. Returns whether it did.
    """
    if held is not None and fits(held, size, max_bytes):
        return Room(held, 0)
    found = entries()
    total = sum(entry.size for entry in found)
    pinned = 0
    enough = max_bytes if fits(total, size, max_bytes) else int(max_bytes * _FULL_ENOUGH)
    for entry in found:
        if fits(total, size, enough):
            break
        if evict(entry):
            total -= entry.size
        else:
            pinned += entry.size
    return Room(total, pinned)


def fitting(sizes: Mapping[Wanted, int], max_bytes: int) -> set[Wanted]:
    """Return what fits the cache at once, in the order of ``sizes``, with room left for one more to read."""
    room = max_bytes - max(sizes.values(), default=0)
    found = set[Wanted]()
    for wanted, size in sizes.items():
        room -= size
        if room < 0 and found:
            break
        found.add(wanted)
    return found


def missing_runs(known: bytes | bytearray, first: int, part_bytes: int) -> Iterator[Run]:
    """Yield runs of missing parts, cut at multiples of one request, so that all processes cut alike.

    Args:
        known: One byte per part from ``first`` on: 0 if the part is missing.
        first: Number of the first part.
        part_bytes: Bytes per part.
    """
    stride = max(1, REQUEST_BYTES // part_bytes)
    last = first + len(known)
    begin = None
    for part in range(first, last + 1):
        gap = part < last and known[part - first] == 0
        if begin is not None and (not gap or part % stride == 0):
            yield begin, part
            begin = None
        if gap and begin is None:
            begin = part
