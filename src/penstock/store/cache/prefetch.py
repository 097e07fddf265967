"""Prefetches extents in the order in which they will be needed. Knows a list of extents; not why they are wanted.

Reads do not queue here: a reader that needs a missing part fetches it itself, at once, or waits if it is being fetched.
So urgent reads overtake, and an error in fetching ahead is raised to the reader that needs the bytes. Before it reads
sample by sample, it waits for what is coming anyway: otherwise it would cut requests into smaller ones.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.runtime.forking import reset_in_children
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.policy import Run
from penstock.store.cache.store import CacheBackedStore
from penstock.store.extents import Extent, Unit

_OPEN_AGAIN_SECONDS = 0.1
_ARRIVE_SECONDS = 1.0  # without anything arriving, until a reader fetches for itself
_END_SECONDS = 1.0  # for all threads to end; one that waits for a silent store is abandoned


@dataclass(slots=True)
class _PrefetchUnit:
    """A unit on the list. It is resolved (size and version), opened (and so pinned), and fetched, in that order."""

    unit: Unit
    learnt: bool = False
    blob: CachedBlob | None = None
    busy: int = 0  # number of threads working on it
    dropped: bool = False
    error: Exception | None = None
    here: set[Extent] = field(default_factory=set)  # valid while it is pinned


@dataclass(slots=True)
class _PrefetchItem:
    extent: Extent
    object: _PrefetchUnit
    runs: deque[Run] | None = None  # known once the object is open


Job = tuple[_PrefetchUnit, Run | None]  # a run to fetch; without one, the object's next step


class Prefetcher:
    """Fetches a list of extents in its order, and keeps their objects pinned while they are on the list.

    Args:
        cache: Cache of the stores of all extents.
        concurrency: Maximum number of concurrent requests. With 0, ``want`` fetches the list before it returns, one
            request at a time, without threads.
        bandwidth: Maximum bytes per second.
    """

    def __init__(self, cache: NodeCache, concurrency: int = 8, bandwidth: float | None = None) -> None:
        self._cache = cache
        self._concurrency = concurrency
        self._bandwidth = bandwidth
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Start with an empty list, also in a forked child, which has neither its parent's threads nor its pins."""
        self._changed = threading.Condition()
        self._objects: dict[Unit, _PrefetchUnit] = {}
        self._items: list[_PrefetchItem] = []
        self._by_extent: dict[Extent, _PrefetchItem] = {}  # of the list when it was replaced
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._next_request_at = 0.0  # as the bandwidth allows
        self._opening: _PrefetchUnit | None = None  # one at a time, so that space is taken in the order of the list
        self._no_room: CacheInUse | None = None
        self._no_room_since = 0.0
        self._next_open_at = 0.0
        self._stages: deque[deque[_PrefetchItem]] = deque()  # what is awaited, before each call of ``when_here``
        self._when_here: Callable[[], None] | None = None

    def want(self, wants: Sequence[Extent], urgent: int = 0, when_here: Callable[[], None] | None = None) -> None:
        """Replace the list. Objects that are no longer on it are unpinned.

        Args:
            wants: Extents of stores over this cache, most urgent first.
            urgent: Number of leading extents that are needed before the others.
            when_here: Function called by a thread of the prefetcher when the last urgent extent was fetched, and again
                when the last of the others was. Not called if all were cached already, or after the list was
                replaced.
        """
        with self._changed:
            old = self._objects
            idle = not self._items
            units = dict.fromkeys(extent.unit for extent in wants)
            self._objects = {unit: old.get(unit) or _PrefetchUnit(unit) for unit in units}
            first = self._missing(wants[:urgent])
            then = self._missing(wants[urgent:])
            self._items = [*first, *then]
            self._by_extent = {item.extent: item for item in self._items}
            self._stages = deque(deque(stage) for stage in (first, then) if stage)
            self._when_here = when_here if self._stages else None
            for unit in old.keys() - self._objects.keys():
                old[unit].dropped = True
                _unpin_dropped(old[unit])
            while len(self._threads) < self._concurrency and wants:
                self._threads.append(threading.Thread(target=self._work, name="penstock-prefetch", daemon=True))
                self._threads[-1].start()
            if self._items or not (idle and wants):  # no thread has to wake up if nothing is missing
                self._changed.notify_all()
        if not self._concurrency:
            self._next_open_at = 0.0  # no thread waits: what there was no room for is tried again with each list
            self._fetch_all()

    def wait_for(self, extents: Sequence[Extent]) -> None:
        """Wait for extents on the list, as long as something arrives.

        A reader that has caught up with the prefetcher would fetch one sample after another, in more requests. Extents
        that failed, or have no room, are left to the reader. Extents that were missing count as misses.
        """
        start = time.monotonic_ns()
        with self._changed:
            coming = deque(extent for extent in extents if self._is_awaited(extent))
            missing = len(coming)
            while coming and self._fetches(coming[0]):
                if not self._is_awaited(coming[0]):
                    coming.popleft()
                elif not self._changed.wait(_ARRIVE_SECONDS):
                    break
        if missing:
            self._cache.counters.add(misses=missing, waited_ns=time.monotonic_ns() - start)

    def _is_awaited(self, extent: Extent) -> bool:
        item = self._by_extent.get(extent)
        return item is not None and self._is_coming(item)

    def _fetches(self, extent: Extent) -> bool:
        """Return whether threads fetch, or will, what is on the list, and there is room for an extent."""
        item = self._by_extent.get(extent)
        lacks_room = time.monotonic() < self._next_open_at and (item is None or item.object.blob is None)
        if self._closing or not self._threads or lacks_room:
            return False
        return bool(self._items) or any(each.busy for each in self._objects.values())

    def finished(self, units: Iterable[Unit]) -> None:
        """Take units off the list, unpin them and mark them as no longer needed: they are evicted first."""
        units = list(units)
        with self._changed:
            for unit in units:
                if target := self._objects.pop(unit, None):
                    target.dropped = True
                    _unpin_dropped(target)
            self._items = [item for item in self._items if not item.object.dropped]
        for store, path, within in units:
            assert isinstance(store, CacheBackedStore)
            store.finished(path, within)

    def unpin_all(self) -> None:
        """Unpin everything and empty the list, because a reader needs space. What is needed last is unpinned first."""
        with self._changed:
            for each in reversed(self._objects.values()):
                each.dropped = True
                _unpin_dropped(each)
            self._objects = {}
            self._items = []
            self._by_extent = {}
            self._when_here = None
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until the whole list is fetched.

        Raises:
            CacheInUse: If there was no space for the cache's ``patience``.
            Exception: First error of a fetch.
        """
        with self._changed:
            while self._items or any(each.busy for each in self._objects.values()):
                self._changed.wait()
                if self._no_room and time.monotonic() - self._no_room_since > self._cache.patience:
                    raise self._no_room
            errors = [each.error for each in self._objects.values() if each.error]
        if errors:
            raise errors[0]

    def close(self, wait: bool = True) -> None:
        """Unpin everything and end the threads, after their current requests.

        Args:
            wait: Whether to wait for the threads, up to a second. False in a finalizer, which may run in one of them.
        """
        self.want([])
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        deadline = time.monotonic() + _END_SECONDS
        for thread in self._threads if wait else ():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _missing(self, wants: Sequence[Extent]) -> list[_PrefetchItem]:
        items = [
            _PrefetchItem(extent, target)
            for extent in wants
            if extent not in (target := self._objects[extent.unit]).here
        ]
        return [item for item in items if not self._is_here(item)]

    def _fetch_all(self) -> None:
        """Fetch the list in this thread, as far as there is room."""
        while True:
            with self._changed:
                now = time.monotonic()
                job = self._take(now)
                pause = self._next_request_at - now
            if job is not None:
                self._do(*job)
            elif pause > 0:
                time.sleep(pause)
            else:
                return

    def _work(self) -> None:
        while job := self._wait_for_job():
            self._do(*job)

    def _wait_for_job(self) -> Job | None:
        """Return the next job, or None when closed. Sleeps while there is nothing to do."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                if job := self._take(now):
                    return job
                pauses = [at - now for at in (self._next_request_at, self._next_open_at) if at > now]
                self._changed.wait(min(pauses, default=None))
            return None

    def _do(self, target: _PrefetchUnit, run: Run | None) -> None:
        full: CacheInUse | None = None
        store, path, within = target.unit
        assert isinstance(store, CacheBackedStore)
        try:
            if run and target.blob:
                target.blob.fetch(run)
            elif target.learnt:
                target.blob = store.open(path, within, patience=0)
            else:
                store.resolve_size(path, within)
                target.learnt = True
        except CacheInUse as error:
            full = error
        except Exception as error:
            target.error = error
        with self._changed:
            self._finish(target, full)
            when_here = self._take_when_here()
        if when_here is not None:
            try:
                when_here()
            except Exception as error:  # the step itself raises it, too
                target.error = error

    def _take_when_here(self) -> Callable[[], None] | None:
        """Return ``when_here`` if all extents of a stage were fetched, so that it is due."""
        if self._when_here is None:
            return None
        # Not the list: an item leaves it when its last run is begun.
        stage = self._stages[0]
        while stage and not self._is_coming(stage[0]):
            stage.popleft()
        if stage:
            return None
        self._stages.popleft()
        when_here = self._when_here
        self._when_here = when_here if self._stages else None
        return when_here

    def _is_coming(self, item: _PrefetchItem) -> bool:
        target = item.object
        if target.error or target.dropped:
            return False
        return target.blob is None or bool(_runs(target.blob, item.extent, self._cache.part_bytes))

    def _take(self, now: float) -> Job | None:
        """Return the first job in the order of the list, or None."""
        if now < self._next_request_at:
            return None
        may_open = not self._opening and now >= self._next_open_at
        for item in list(self._items):
            target = item.object
            if target.blob is None and not target.error:
                if not target.busy and (may_open or not target.learnt):
                    self._opening = target if target.learnt else self._opening
                    target.busy += 1
                    return target, None
                may_open = False  # later extents must not take its space
                continue
            if target.blob and item.runs is None:
                item.runs = deque(_runs(target.blob, item.extent, self._cache.part_bytes))
            if target.blob and item.runs:
                target.busy += 1
                run = item.runs.popleft()
                if self._bandwidth:
                    nbytes = (run[1] - run[0]) * self._cache.part_bytes
                    self._next_request_at = max(now, self._next_request_at) + nbytes / self._bandwidth
                return target, run
            self._items.remove(item)
            self._changed.notify_all()  # for ``drain``
            if target.blob and self._when_here is not None:
                # A reader fetched it meanwhile: an empty job checks whether it was the last one of its stage.
                target.busy += 1
                return target, (0, 0)
        return None

    def _is_here(self, item: _PrefetchItem) -> bool:
        """Return whether nothing is left to fetch for an item, as for nearly all of a warm cache."""
        target = item.object
        if target.blob is None:
            return False
        item.runs = deque(_runs(target.blob, item.extent, self._cache.part_bytes))
        if not item.runs:
            target.here.add(item.extent)
        return not item.runs

    def _finish(self, target: _PrefetchUnit, full: CacheInUse | None) -> None:
        target.busy -= 1
        if target is self._opening:
            self._opening = None
            now = time.monotonic()
            if full and not self._no_room:
                self._no_room_since = now
            self._no_room = full
            self._next_open_at = now + _OPEN_AGAIN_SECONDS if full else 0.0
        _unpin_dropped(target)
        self._changed.notify_all()


def _unpin_dropped(target: _PrefetchUnit) -> None:
    if target.dropped and not target.busy and target.blob:
        target.blob.close()
        target.blob = None
        target.here.clear()


def _runs(blob: CachedBlob, extent: Extent, part_bytes: int) -> list[Run]:
    """Return the missing runs of parts of an extent."""
    if extent.start == extent.end:
        return []
    start = extent.start // part_bytes * part_bytes
    end = blob.size if extent.end is None else min(-(-extent.end // part_bytes) * part_bytes, blob.size)
    return blob.missing(start, end)
