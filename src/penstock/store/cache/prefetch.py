"""Fetching ahead, in the order in which it will be needed. Knows a list of wants; not why they are wanted.

Reads do not queue here: a reader that meets a missing part fetches it itself, at once, or waits for it if it is on its
way. So what is urgent overtakes, and an error in fetching ahead is met by whoever needs the bytes.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.cache import CachedBlob
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.parts import Run

_LOOK_AGAIN_SECONDS = 0.1


class Want(NamedTuple):
    """Bytes that will be needed: ranges (start, end) of an object, or all of it; no range at all only pins it."""

    path: str
    ranges: tuple[tuple[int, int], ...] | None = None


@dataclass(slots=True)
class _Object:
    """An object that is wanted: first its version is learnt, then it is opened, which pins it, then its parts come."""

    path: str
    learnt: bool = False
    blob: CachedBlob | None = None
    busy: int = 0  # threads at any of these steps
    dropped: bool = False
    error: Exception | None = None
    here: set[Want] = field(default_factory=set)  # while it is pinned, what is here stays


@dataclass(slots=True)
class _Item:
    want: Want
    object: _Object
    runs: deque[Run] | None = None  # known once the object is open


Job = tuple[_Object, Run | None]  # a run to fetch; without one, the object's next step


class Prefetcher:
    """``concurrency`` requests at once, at most ``bandwidth`` bytes a second; what is wanted is pinned."""

    def __init__(self, store: CachedStore, concurrency: int = 8, bandwidth: float | None = None) -> None:
        self._store = store
        self._concurrency = concurrency
        self._bandwidth = bandwidth
        self._begin_process()

    def _begin_process(self) -> None:
        """At the start, and in a forked child, which has neither its parent's threads nor its pins."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._objects: dict[str, _Object] = {}
        self._items: list[_Item] = []
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._next_request_at = 0.0  # as the bandwidth allows
        self._opening: _Object | None = None  # one at a time, so that room is given in the order of the list
        self._room_wanted = self._store.cache.room_wanted()
        self._no_room: CacheInUse | None = None
        self._no_room_since = self._next_open_at = 0.0

    def want(self, wants: Sequence[Want]) -> None:
        """Replace the list: what is on it is fetched in its order and kept; what no longer is, is let go."""
        if self._pid != os.getpid():
            self._begin_process()
        with self._changed:
            old, idle = self._objects, not self._items
            paths = dict.fromkeys(want.path for want in wants)
            self._objects = {path: old.get(path) or _Object(path) for path in paths}
            items = (_Item(want, target) for want in wants if want not in (target := self._objects[want.path]).here)
            self._items = [item for item in items if not self._is_here(item)]
            for path in old.keys() - self._objects.keys():
                old[path].dropped = True
                _let_go(old[path])
            while len(self._threads) < self._concurrency and wants:
                self._threads.append(threading.Thread(target=self._work, name="penstock-prefetch", daemon=True))
                self._threads[-1].start()
            if self._items or not (idle and wants):  # nobody need wake up where all was here, and is
                self._changed.notify_all()

    def let_go(self) -> None:
        """Unpin all, until something is wanted again: a reader has no room. What is needed last may leave first."""
        with self._changed:
            for each in reversed(self._objects.values()):
                each.dropped = True
                _let_go(each)
            self._objects, self._items = {}, []
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all that is wanted is here; raise the first error that was met on the way."""
        with self._changed:
            while self._items or any(each.busy for each in self._objects.values()):
                self._changed.wait()
                if self._no_room and time.monotonic() - self._no_room_since > self._store.cache.patience:
                    raise self._no_room
            errors = [each.error for each in self._objects.values() if each.error]
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Let go of everything and end the threads, once what they are fetching is there."""
        self.want([])
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while not self._closing:
            self._heed_others()
            if job := self._wait_for_job():
                self._do(*job)

    def _heed_others(self) -> None:
        """Make room when a reader of any process asks for it. Not under the lock: who makes room lets go here, too."""
        wanted = self._store.cache.room_wanted()
        if wanted != self._room_wanted:
            self._room_wanted = wanted
            self._store.make_room()

    def _wait_for_job(self) -> Job | None:
        """The next thing to do, or None after a while."""
        with self._changed:
            now = time.monotonic()
            if job := self._take(now):
                return job
            pauses = [at - now for at in (self._next_request_at, self._next_open_at) if at > now]
            if not self._closing:
                self._changed.wait(min([*pauses, _LOOK_AGAIN_SECONDS]))
            return None

    def _do(self, target: _Object, run: Run | None) -> None:
        full: CacheInUse | None = None
        try:
            if run and target.blob:
                target.blob.fetch(run)
            elif target.learnt:
                target.blob = self._store.open(target.path, patience=0)
            else:
                self._store.info(target.path)
                target.learnt = True
        except CacheInUse as error:
            full = error
        except Exception as error:
            target.error = error
        with self._changed:
            self._finish(target, full)

    def _take(self, now: float) -> Job | None:
        """The first thing to do in the order of the list."""
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
                may_open = False  # what comes later in the list must not take the room
                continue
            if target.blob and item.runs is None:
                item.runs = deque(_runs(target.blob, item.want, self._store.cache.part_bytes))
            if target.blob and item.runs:
                target.busy += 1
                run = item.runs.popleft()
                if self._bandwidth:
                    nbytes = (run[1] - run[0]) * self._store.cache.part_bytes
                    self._next_request_at = max(now, self._next_request_at) + nbytes / self._bandwidth
                return target, run
            self._items.remove(item)
            self._changed.notify_all()  # who drains looks again
        return None

    def _is_here(self, item: _Item) -> bool:
        """Whether nothing is left to do for it, as for nearly all that is wanted from a warm cache."""
        target = item.object
        if target.blob is None:
            return False
        item.runs = deque(_runs(target.blob, item.want, self._store.cache.part_bytes))
        if not item.runs:
            target.here.add(item.want)
        return not item.runs

    def _finish(self, target: _Object, full: CacheInUse | None) -> None:
        target.busy -= 1
        if target is self._opening:
            self._opening = None
            now = time.monotonic()
            if full and not self._no_room:
                self._no_room_since = now
            self._no_room = full
            self._next_open_at = now + _LOOK_AGAIN_SECONDS if full else 0.0
        _let_go(target)
        self._changed.notify_all()


def _let_go(target: _Object) -> None:
    if target.dropped and not target.busy and target.blob:
        target.blob.close()
        target.blob = None
        target.here.clear()


def _runs(blob: CachedBlob, want: Want, part_bytes: int) -> list[Run]:
    """What is missing of a want, each part once and neighbours together."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted([(0, blob.size)] if want.ranges is None else want.ranges):
        start, end = start // part_bytes * part_bytes, min(-(-end // part_bytes) * part_bytes, blob.size)
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return [run for start, end in spans for run in blob.missing(start, end)]
