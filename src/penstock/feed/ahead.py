"""What the next steps need, fetched before they ask: the plan's future turned into a list for the prefetcher.

Only for stores over the node cache. Knows steps and extents; not how anything is fetched.

    a window:  [ being made | the steps after it ]  + what is resident, kept or fetched as its reader says
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from penstock.feed.catalog import Catalog
from penstock.feed.lookup import Looked, Lookup
from penstock.feed.steps import Steps
from penstock.plan.order import Order
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit, joined


@dataclass(eq=False, slots=True)
class StepWindow:
    """What one walk needs soon.

    Attributes:
        making: steps that threads are at.
        begun: first and last of them when the window last moved.
        first: what the steps that were being made then hold.
        then: what the steps after them hold.
        now: extents that ``first`` needs.
        later: extents that ``then`` needs.
        resident: extents of resident groups.
    """

    lookup: Lookup
    steps: Steps
    making: list[int] = field(default_factory=list)
    begun: tuple[int, int] | None = None
    first: list[Looked] = field(default_factory=list)
    then: list[Looked] = field(default_factory=list)
    now: list[Extent] = field(default_factory=list)
    later: list[Extent] = field(default_factory=list)
    resident: list[Extent] = field(default_factory=list)


class Ahead:
    """Keeps the prefetcher's list: for every walk the steps being made, and up to ``reach`` steps after them.

    A window moves when half of it is used, so at least half of ``reach`` steps are always in it. What is resident stays
    pinned, also while no step of the window draws from it. What the plan has left behind is the first to be evicted.
    When a reader of any process finds no room, all that is not being read is let go and windows become shorter; they
    grow again by one step at a time.
    """

    def __init__(self, catalog: Catalog, order: Order, cache: NodeCache, reach: int, prefetcher: Prefetcher) -> None:
        self._catalog = catalog
        self._order = order
        self._cache = cache
        self._most = reach
        self._prefetcher = prefetcher
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """At the start, and in a forked child, where no thread is making what its parent's threads were."""
        self._reach = self._most
        self._windows: list[StepWindow] = []  # the newest first
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
        """Nothing of a walk is needed any more."""
        with self._lock:
            if window in self._windows:  # not in a child that was forked since
                self._windows.remove(window)
                self._renew()

    @contextmanager
    def making(self, window: StepWindow, step: int) -> Iterator[None]:
        """While a step is made, it and what comes after it are wanted."""
        with self._lock:
            window.making.append(step)
        try:
            with self._lock:
                self._move(window)
            yield
        finally:
            with self._lock:
                window.making.remove(step)
            if self._cache.counters.hits:  # a process that makes few steps, as a worker of a short run, counts, too
                self._cache.counters.flush()

    def _move(self, window: StepWindow) -> None:
        first = min(window.making)
        last = max(window.making)
        slack = self._reach // 2
        if window.begun:
            low, high = window.begun
            if low <= first <= low + slack and last <= high + slack:
                return  # near enough: a window is not made anew for every step
        window.begun = first, last
        self._reach = min(self._reach + 1, self._most)
        looked = window.lookup.upto(first, last + self._reach + 1)
        window.first = [each for each in looked if each.step in window.making]
        window.then = [each for each in looked if each.step not in window.making]
        self._ask(window)
        self._renew()

    def _ask(self, window: StepWindow) -> None:
        """Ask readers what the window's steps need."""
        window.now = self._wants(window.first)
        window.later = self._wants(window.then)
        walks_on = window.steps.stop is None or window.steps.stop > window.steps.start + window.steps.stride
        window.resident = self._residents(window.first[-1:], window.steps) if walks_on else []

    def _wants(self, looked: Iterable[Looked]) -> list[Extent]:
        """The bytes of some steps, step by step."""
        found: list[Extent] = []
        for each in looked:
            found += joined(_cached(self._catalog.wants(each.shares)), self._cache.part_bytes)
        return found

    def _residents(self, making: list[Looked], steps: Steps) -> list[Extent]:
        """Of all that is resident: to be kept, and of its share of the groups this walk fetches what their readers say.

        A rank's workers deal the groups among them: each walks with a stride of their number.
        """
        slots = np.concatenate(
            [np.zeros(0, np.int64), *(each.slots[share.at] for each in making for share in each.shares)]
        )
        if not len(slots):  # nothing but padding
            return []
        found: list[Extent] = []
        for number, (source, group) in enumerate(self._order.residents(slots)):
            extents = self._catalog.resident(source, group)
            own = number % steps.stride == steps.start % steps.stride
            found += extents if own else [Extent(extent.unit, 0, 0) for extent in extents]
        return _cached(found)

    def _renew(self) -> None:
        """Hand the prefetcher what all windows need, and say what is no longer in sight."""
        now = [extent for window in self._windows for extent in window.now]
        later = [extent for window in self._windows for extent in window.later]
        resident = [extent for window in self._windows for extent in window.resident]
        left_behind = self._in_sight
        self._in_sight = {extent.unit for extent in (*now, *later, *resident)}
        fitting = self._within_bound(now, resident, later)
        soon = [extent for extent in (*now, *later) if extent.unit in fitting]
        kept = [extent for extent in resident if extent.unit in fitting]
        self._prefetcher.want([*soon, *kept], len(soon), self._ask_again)
        for store, path, within in left_behind - self._in_sight:
            assert isinstance(store, CacheBackedStore)
            store.finished(path, within)

    def _ask_again(self) -> None:
        """What was wanted is here. If it was metadata, readers now know which bytes come next."""
        with self._lock:
            before = [(window.now, window.later, window.resident) for window in self._windows]
            for window in self._windows:
                self._ask(window)
            if before != [(window.now, window.later, window.resident) for window in self._windows]:
                self._renew()

    def _within_bound(self, *wanted: list[Extent]) -> set[Unit]:
        """What fits the cache at once, in this order. Room for one more unit is left: a reader can always enter."""
        sizes = {extent.unit: _size(extent.unit) for extents in wanted for extent in extents}
        room = self._cache.max_bytes - max(sizes.values(), default=0)
        fitting = set[Unit]()
        for unit in sizes:
            room -= sizes[unit]
            if room < 0 and fitting:
                break
            fitting.add(unit)
        return fitting

    def _make_room(self) -> None:
        """Let go of all that no thread is reading at this moment."""
        with self._lock:
            self._reach //= 2
            for window in self._windows:
                window.begun = None
            self._prefetcher.unpin_all()

    def close(self, wait: bool = True) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._prefetcher.close(wait)


def _cached(extents: Iterable[Extent]) -> list[Extent]:
    """Those that lie in the node cache: a local file needs no fetching."""
    return [extent for extent in extents if isinstance(extent.unit.store, CacheBackedStore)]


def _size(unit: Unit) -> int:
    assert isinstance(unit.store, CacheBackedStore)
    size = unit.store.known_size(unit.path, unit.within)
    return unit.store.estimated_size() if size is None else size
