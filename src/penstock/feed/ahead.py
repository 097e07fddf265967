"""Fetching ahead: turns the plan of the next steps into a list for the prefetcher.

Only for stores over the node cache. Knows steps and extents; knows nothing of how they are fetched.

    a window:  [ steps being made | the steps after them ]  + resident groups, fetched or pinned as their reader says
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from penstock.feed.catalog import Catalog
from penstock.feed.lookup import Looked, Lookup
from penstock.feed.steps import Steps
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.policy import fitting
from penstock.store.cache.store import CacheBackedStore, cached_extents
from penstock.store.extents import Extent, Unit, joined


@dataclass(eq=False, slots=True)
class StepWindow:
    """The next steps of one walk, and the extents that they need.

    Attributes:
        lookup: Plan of the walk.
        steps: Steps of the walk.
        making: Steps that threads are making.
        begun: First of these and end of the window when it last moved; None if it must move.
        first: Plans of the steps that were being made then.
        then: Plans of the steps after them.
        needs: Extents of each of these steps.
        now: Extents that ``first`` needs.
        later: Extents that ``then`` needs.
        resident: Extents of resident groups.
    """

    lookup: Lookup
    steps: Steps
    making: list[int] = field(default_factory=list)
    begun: tuple[int, int] | None = None
    first: list[Looked] = field(default_factory=list)
    then: list[Looked] = field(default_factory=list)
    needs: dict[int, list[Extent]] = field(default_factory=dict)
    now: list[Extent] = field(default_factory=list)
    later: list[Extent] = field(default_factory=list)
    resident: list[Extent] = field(default_factory=list)


class ExtentList(Protocol):
    """What fetches the list: a ``Prefetcher``, or that of a simulation."""

    def want(self, wants: Sequence[Extent], urgent: int = 0, when_here: Callable[[], None] | None = None) -> None: ...

    def wait_for(self, extents: Sequence[Extent]) -> None: ...

    def finished(self, units: Iterable[Unit]) -> None: ...

    def unpin_all(self) -> None: ...

    def close(self, wait: bool = True) -> None: ...


class Ahead:
    """Keeps the list of the prefetcher: for each walk the first step being made, and up to ``reach`` steps after it.

    A window moves when half of it is used, so it always covers at least half of ``reach`` steps. Resident groups stay
    pinned even if no step of the window draws from them. Units that the plan has left behind are evicted first. When a
    reader of any process finds no room, everything that is not being read is unpinned and windows are halved; they grow
    again by one step at a time.

    Args:
        catalog: Parts of the run.
        cache: Node cache to fetch into.
        reach: Maximum number of steps to fetch ahead.
        prefetcher: Fetches the extents.
    """

    def __init__(self, catalog: Catalog, cache: NodeCache, reach: int, prefetcher: ExtentList) -> None:
        self._catalog = catalog
        self._cache = cache
        self._max_reach = reach
        self._prefetcher = prefetcher
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start without windows, also in a forked child: the steps of its parent are not made here."""
        self._reach = self._max_reach
        self._windows: list[StepWindow] = []  # newest first
        self._in_sight: set[Unit] = set()
        self._lock = threading.RLock()
        self._unsubscribe: Callable[[], None] | None = None

    def begin(self, lookup: Lookup, steps: Steps) -> StepWindow:
        """Open a window for a walk."""
        window = StepWindow(lookup, steps)
        with self._lock:
            if self._unsubscribe is None:
                self._unsubscribe = self._cache.space_requests.subscribe(self._make_room)
            self._windows.insert(0, window)
        return window

    def end(self, window: StepWindow) -> None:
        """Close the window of a walk."""
        with self._lock:
            if window in self._windows:  # not in a child that was forked since
                self._windows.remove(window)
                self._renew()

    @contextmanager
    def making(self, window: StepWindow, step: int) -> Iterator[None]:
        """Within the block, a step is made: it and the steps after it are fetched."""
        with self._lock:
            window.making.append(step)
        try:
            with self._lock:
                self._move(window)
                needs = window.needs.get(step, [])
            self._prefetcher.wait_for(needs)
            yield
        finally:
            with self._lock:
                window.making.remove(step)
            if self._cache.counters.hits:  # also for a process that makes few steps, such as a worker of a short run
                self._cache.counters.flush()

    def _move(self, window: StepWindow) -> None:
        first = min(window.making)
        last = max(window.making)
        slack = self._reach // 2
        if window.begun:
            low, stop = window.begun
            if low <= first <= low + slack and last < stop:
                return  # near enough: moving the window for every step would cost too much
        self._reach = min(self._reach + 1, self._max_reach)
        # From the first step on, so that threads that make later ones pin no more than one thread does.
        stop = max(first + self._reach, last) + 1
        window.begun = first, stop
        looked = window.lookup.upto(first, stop)
        window.first = [each for each in looked if each.step in window.making]
        window.then = [each for each in looked if each.step not in window.making]
        self._ask(window)
        self._renew()

    def _ask(self, window: StepWindow) -> None:
        """Ask readers what the window's steps need."""
        window.needs = {each.step: self._wants(each) for each in (*window.first, *window.then)}
        window.now = [extent for each in window.first for extent in window.needs[each.step]]
        window.later = [extent for each in window.then for extent in window.needs[each.step]]
        walks_on = window.steps.stop is None or window.steps.stop > window.steps.start + window.steps.stride
        window.resident = self._residents(window) if walks_on else []

    def _wants(self, looked: Looked) -> list[Extent]:
        return joined(cached_extents(self._catalog.wants(looked.shares)), self._cache.part_bytes)

    def _residents(self, window: StepWindow) -> list[Extent]:
        """Return the extents of all resident groups.

        All of them are pinned. With N workers, each fetches every N-th group.
        """
        steps = window.steps
        making = window.first[-1:]
        slots = np.concatenate(
            [np.zeros(0, np.int64), *(each.slots[share.at] for each in making for share in each.shares)]
        )
        if not len(slots):  # nothing but padding
            return []
        found: list[Extent] = []
        for number, (source, group) in enumerate(window.lookup.residents(making[-1].step, slots)):
            extents = self._catalog.resident(source, group)
            own = number % steps.stride == steps.start % steps.stride
            found += extents if own else [Extent(extent.unit, 0, 0) for extent in extents]
        return cached_extents(found)

    def _renew(self) -> None:
        """Pass the extents of all windows to the prefetcher, and mark units that no window needs any more."""
        now = [extent for window in self._windows for extent in window.now]
        later = [extent for window in self._windows for extent in window.later]
        resident = [extent for window in self._windows for extent in window.resident]
        left_behind = self._in_sight
        self._in_sight = {extent.unit for extent in (*now, *later, *resident)}
        kept_units = self._within_bound(now, resident, later)
        soon = [extent for extent in (*now, *later) if extent.unit in kept_units]
        kept = [extent for extent in resident if extent.unit in kept_units]
        left_behind -= self._in_sight
        if left_behind:
            self._catalog.close()  # an open blob is pinned, and would count as used when it is closed later
            self._prefetcher.finished(left_behind)
        self._prefetcher.want([*soon, *kept], len(soon), self._ask_again)

    def _ask_again(self) -> None:
        """Ask readers again after extents have arrived: from metadata they learn which bytes come next."""
        with self._lock:
            before = [(window.now, window.later, window.resident) for window in self._windows]
            for window in self._windows:
                self._ask(window)
            if before != [(window.now, window.later, window.resident) for window in self._windows]:
                self._renew()

    def _within_bound(self, *wanted: list[Extent]) -> set[Unit]:
        """Return the units that fit the cache at once, in this order, with room left for one more unit to read."""
        sizes = {extent.unit: _size(extent.unit) for extents in wanted for extent in extents}
        return fitting(sizes, self._cache.max_bytes)

    def _make_room(self) -> None:
        """Unpin everything that no thread is reading at this moment."""
        with self._lock:
            self._reach //= 2
            for window in self._windows:
                window.begun = None
            self._prefetcher.unpin_all()

    def close(self, wait: bool = True) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._prefetcher.close(wait)


def _size(unit: Unit) -> int:
    assert isinstance(unit.store, CacheBackedStore)
    size = unit.store.known_size(unit.path, unit.within)
    return unit.store.estimated_size() if size is None else size
