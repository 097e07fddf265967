"""What the next steps need, fetched before they ask: the plan's future turned into a store's wants.

Only for stores that are read through the node cache. Knows steps and byte ranges; not how anything is fetched.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

import numpy as np

from penstock.plan.endless import Endless, Planned
from penstock.plan.finite import Finite
from penstock.readers.tar.manifest import Manifest
from penstock.readers.tar.reader import TarSource
from penstock.runtime.forking import reset_in_children
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher, Want

Planner = Callable[[int], Planned | None]  # what a step holds; None past the end of the run


def needed(manifest: Manifest, plans: Mapping[int, Planned | None]) -> dict[int, list[Want]]:
    """The byte ranges that each step reads, by shard, in the order of its samples; whole shards without an index."""
    real = {step: planned.item >= 0 for step, planned in plans.items() if planned is not None}
    columns = [
        [getattr(plans[step], name)[here] for step, here in real.items()] for name in ("source", "group", "item")
    ]
    rows = manifest.rows(*map(np.concatenate, columns)) if real else np.empty(0, np.int64)
    shards = manifest.shard_of(rows).tolist()
    extents = [bounds.tolist() for bounds in manifest.extents(rows)] if manifest.indexed else [shards, shards]
    samples, wants = zip(shards, *extents, strict=True), {step: list[Want]() for step in plans}
    for step, here in real.items():
        ranges: dict[int, list[tuple[int, int]]] = {}
        for shard, start, end in islice(samples, int(here.sum())):
            ranges.setdefault(shard, []).append((start, end))
        wants[step] = [
            Want(manifest.shard(shard).path, tuple(found) if manifest.indexed else None)
            for shard, found in ranges.items()
        ]
    return wants


class Ahead:
    """Wants of the steps that are being made and of ``steps`` after them, in the order in which they are needed.

    The window moves when half of it is used, so at least half of ``steps`` are always in it.
    What is resident stays pinned, also while no step of the window draws from it. What the plan has left behind is the
    first to be evicted. A reader without room makes the window shorter; it grows again by a step at a time.
    """

    def __init__(
        self,
        manifest: Manifest,
        order: Endless | Finite,
        source: TarSource,
        store: CachedStore,
        steps: int,
        concurrency: int,
        bandwidth: int | None,
    ) -> None:
        self._manifest, self._order, self._source, self._store = manifest, order, source, store
        self._most = self._reach = steps
        self._prefetcher = Prefetcher(store, concurrency, bandwidth)
        self.reset_after_fork()
        store.make_room = self._make_room
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """At the start, and in a forked child, where no thread is making what its parent's threads were."""
        self._making: list[int] = []
        self._needs: dict[int, list[Want]] = {}  # by step
        self._whose: object = None
        self._in_sight: set[str] = set()
        self._begun: tuple[int, int] | None = None  # first and last of the steps that were made when the window moved
        self._lock = threading.RLock()

    @contextmanager
    def making(self, step: int, plan: Planner, whose: object = None) -> Iterator[None]:
        """While a step is made, it and what comes after it are wanted. ``whose`` tells plans apart."""
        with self._lock:
            if whose != self._whose:  # another rank, or another batch size since: nothing that is known of steps holds
                self._whose, self._needs, self._begun = whose, {}, None
            self._making.append(step)
            self._look_ahead(plan)
        try:
            yield
        finally:
            with self._lock:
                self._making.remove(step)

    def _look_ahead(self, plan: Planner) -> None:
        first, last, slack = min(self._making), max(self._making), self._reach // 2
        if self._begun and self._begun[0] <= first <= self._begun[0] + slack and last <= self._begun[1] + slack:
            return  # near enough: a window is not made anew for every step
        self._begun = first, last
        self._reach = min(self._reach + 1, self._most)
        window = range(first, last + self._reach + 1)
        new = {step: plan(step) for step in window if step not in self._needs}
        self._needs = {step: self._needs[step] for step in window if step not in new} | needed(self._manifest, new)
        wants, pinned = [want for step in window for want in self._needs[step]], self._residents(plan(last))
        left_behind, self._in_sight = self._in_sight, {want.path for want in [*wants, *pinned]}
        wants = self._within_bound(wants, pinned)
        self._source.keep_open({want.path for want in wants})
        self._prefetcher.want(wants)
        for path in left_behind - self._in_sight:
            self._store.finished(path)

    def _residents(self, planned: Planned | None) -> list[Want]:
        """What is resident, to be pinned without a byte of it."""
        if planned is None or not (planned.item >= 0).any():  # past the end, or nothing but padding
            return []
        sources, groups = np.array(self._order.residents(planned.slot[planned.item >= 0])).T
        shards = self._manifest.shard_of(self._manifest.rows(sources, groups, 0))
        return [Want(self._manifest.shard(int(shard)).path, ()) for shard in np.unique(shards)]

    def _within_bound(self, wants: list[Want], pinned: list[Want]) -> list[Want]:
        """As much as fits the cache at once: first what is being made, then what is resident, then what comes next.

        Room for one more object is left, so that a reader can always enter.
        """
        wanted = dict.fromkeys(want.path for want in [*wants, *pinned])
        sizes = {path: self._store.known_size(path) for path in wanted}
        room, paths = self._store.cache.max_bytes - max(sizes.values(), default=0), set[str]()
        now = sum(len(self._needs[step]) for step in set(self._making))
        for want in [*wants[:now], *pinned, *wants[now:]]:
            if want.path not in paths:
                room -= sizes[want.path]
                if room < 0 and paths:
                    break
                paths.add(want.path)
        return [want for want in [*wants, *pinned] if want.path in paths]

    def _make_room(self) -> None:
        """Let go of all that no thread is reading at this moment."""
        with self._lock:
            self._reach //= 2
            self._begun = None
            self._source.keep_open(())
            self._prefetcher.let_go()

    def close(self) -> None:
        self._prefetcher.close()
