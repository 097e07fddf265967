"""Processes that read through one node cache and check every byte, for the storms and killings of the torture tests."""

import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.urls import open_remote
from tests.servers.faultproxy import Request

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["tests.store.cache.torture", "obstore"])


@dataclass(frozen=True)
class Thing:
    """An object of the torture; each of its bytes can be computed."""

    number: int
    size: int

    @property
    def key(self) -> str:
        return f"object-{self.number}"

    def bytes(self, start: int, end: int) -> memoryview:
        words = np.arange(start // 8, -(-end // 8), dtype=np.uint64) + np.uint64(self.number << 40)
        words *= np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(29)
        return memoryview(words).cast("B")[start % 8 : start % 8 + end - start]


@dataclass(frozen=True)
class Bench:
    """Where the things are, and the cache they are read through."""

    url: str
    options: StoreOptions
    folder: Path
    max_bytes: int
    part_bytes: int

    def store(self) -> CachedStore:
        cache = NodeCache(self.folder, self.max_bytes, self.part_bytes, concurrency=4, patience=300)
        return CachedStore(open_remote(self.url, self.options), cache)


def check(store: CachedStore, thing: Thing, start: int, end: int) -> None:
    """Read a range in a few pieces and compare it with what it must be."""
    blob = store.open(thing.key)
    buffer = np.full(end - start, 0xAA, np.uint8)
    cuts = [0, (end - start) // 3, (end - start) // 2, end - start]
    for a, b in itertools.pairwise(cuts):
        blob.readinto(memoryview(buffer[a:b]), start + a)
    blob.close()
    if memoryview(buffer) != thing.bytes(start, end):
        wrong = np.flatnonzero(buffer != np.frombuffer(thing.bytes(start, end), np.uint8))
        raise AssertionError(f"{thing}: {len(wrong)} wrong bytes of {start}..{end}, from {start + wrong[0]} on")


def read_once_in_some_order(bench: Bench, things: Sequence[Thing], seed: int) -> None:
    """A process of a storm: every thing once, some whole, some in ranges, some with the next few fetched ahead."""
    store, rng = bench.store(), random.Random(seed)
    order = rng.sample(things, len(things))
    ahead = Prefetcher(store.cache, concurrency=2)
    for place, thing in enumerate(order):
        if rng.random() < 0.3:
            ahead.want([Extent(Unit(store, each.key), 0) for each in order[place : place + 2]])
        if rng.random() < 0.5:
            check(store, thing, 0, thing.size)
        for _ in range(rng.randrange(4)):
            start = rng.randrange(thing.size)
            check(store, thing, start, min(thing.size, start + rng.randrange(1, bench.part_bytes)))
    ahead.close()
    store.close()


def read_for_ever(bench: Bench, things: Sequence[Thing], seed: int) -> None:
    """A process that is there to be killed."""
    for life in range(1_000_000):
        read_once_in_some_order(bench, things, seed * 1_000_003 + life)


def read_whole(bench: Bench, thing: Thing) -> None:
    store = bench.store()
    check(store, thing, 0, thing.size)
    store.close()


def downloads(log: Sequence[Request], prefix: str, part_bytes: int) -> Counter[tuple[str, int]]:
    """How many times each part of each thing went over the wire whole, by the proxy's own log."""
    found: Counter[tuple[str, int]] = Counter()
    for request in log:
        if request.status == 206 and request.fault in ("", "delay", "slow"):
            # Up, at the start: the rest of a body that was cut does not hold its first part whole.
            first, last = -(-request.start // part_bytes), -(-request.end // part_bytes)
            found.update((request.key.removeprefix(prefix + "/"), part) for part in range(first, last))
    return found
