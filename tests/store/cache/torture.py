"""Processes that read through one node cache and check every byte, for the storms and killings of the torture tests."""

import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.store.blob import ByteRange
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.derived import DerivedStore, Maker, Piece, piece_path
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from tests.servers.faultproxy import Request

Part = tuple[str, ByteRange, int]  # of an entry: key, range or (0, 0), number of the part

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

    @property
    def kind(self) -> str:
        """How it is kept: whole, in ranges, or as what is made from it. A third of the objects each."""
        return "whole" if self.number >= 1_000 else ("whole", "ranges", "pieces")[self.number % 3]

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
    compare(read(store.open(thing.key), start, end), thing, start, end)


def check_ranges(store: CachedStore, thing: Thing, rng: random.Random) -> None:
    """Read an object that is kept as ranges."""
    ranges = ranges_of(thing, store.cache.part_bytes)
    for within in rng.sample(ranges, len(ranges)):
        compare(read(store.open(thing.key, within), 0, within[1] - within[0]), thing, *within)


def check_pieces(store: CachedStore, thing: Thing, rng: random.Random) -> None:
    """Read what is made from an object."""
    derived = DerivedStore(store, Invert(store), store.cache)
    for number in rng.sample(range(2), 2):
        start, end = (0, thing.size // 2) if number == 0 else (thing.size // 2, thing.size)
        found = read(derived.open(piece_path(thing.key, number)), 0, end - start)
        compare(~found, thing, start, end)


def read(blob: CachedBlob, start: int, end: int) -> NDArray[np.uint8]:
    buffer = np.full(end - start, 0xAA, np.uint8)
    cuts = [0, (end - start) // 3, (end - start) // 2, end - start]
    for a, b in itertools.pairwise(cuts):
        blob.readinto(memoryview(buffer[a:b]), start + a)
    blob.close()
    return buffer


def compare(buffer: NDArray[np.uint8], thing: Thing, start: int, end: int) -> None:
    if memoryview(buffer) != thing.bytes(start, end):
        wrong = np.flatnonzero(buffer != np.frombuffer(thing.bytes(start, end), np.uint8))
        raise AssertionError(f"{thing}: {len(wrong)} wrong bytes of {start}..{end}, from {start + wrong[0]} on")


def ranges_of(thing: Thing, part_bytes: int) -> list[ByteRange]:
    """The ranges in which a thing is read: two parts and a half each."""
    stride = part_bytes * 5 // 2
    return [(start, min(start + stride, thing.size)) for start in range(0, thing.size, stride)]


@dataclass(frozen=True)
class Invert(Maker):
    """Makes two pieces from an object: its bytes inverted."""

    store: CachedStore
    name: str = "invert"

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        blob = self.store.open(path)
        data = ~read(blob, 0, blob.size)
        yield [memoryview(data[: blob.size // 2])]
        yield [memoryview(data[blob.size // 2 :])]

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        return self.store.info(path).size // 2


def read_once_in_some_order(bench: Bench, things: Sequence[Thing], seed: int) -> None:
    """A process of a storm: every thing once, some whole, some in ranges, some with the next few fetched ahead."""
    store, rng = bench.store(), random.Random(seed)
    order = rng.sample(things, len(things))
    ahead = Prefetcher(store.cache, concurrency=2)
    for place, thing in enumerate(order):
        if thing.kind == "ranges":
            check_ranges(store, thing, rng)
            continue
        if thing.kind == "pieces":
            check_pieces(store, thing, rng)
            continue
        if rng.random() < 0.3:
            ahead.want([extent for each in order[place : place + 2] for extent in extents_of(store, each)])
        if rng.random() < 0.5:
            check(store, thing, 0, thing.size)
        for _ in range(rng.randrange(4)):
            start = rng.randrange(thing.size)
            check(store, thing, start, min(thing.size, start + rng.randrange(1, bench.part_bytes)))
    ahead.close()
    store.close()


def extents_of(store: CachedStore, thing: Thing) -> list[Extent]:
    if thing.kind == "ranges":
        return [Extent(Unit(store, thing.key, within), 0) for within in ranges_of(thing, store.cache.part_bytes)]
    if thing.kind == "pieces":
        derived = DerivedStore(store, Invert(store), store.cache)
        return [Extent(Unit(derived, piece_path(thing.key, number)), 0) for number in range(2)]
    return [Extent(Unit(store, thing.key), 0)]


def read_for_ever(bench: Bench, things: Sequence[Thing], seed: int) -> None:
    """A process that is there to be killed."""
    for life in range(1_000_000):
        read_once_in_some_order(bench, things, seed * 1_000_003 + life)


def read_whole(bench: Bench, thing: Thing) -> None:
    store = bench.store()
    check(store, thing, 0, thing.size)
    store.close()


def downloads(log: Sequence[Request], prefix: str, part_bytes: int, things: Sequence[Thing]) -> Counter[Part]:
    """How many times each part of each entry went over the wire whole, by the proxy's own log."""
    ranges = {thing.key: ranges_of(thing, part_bytes) for thing in things if thing.kind == "ranges"}
    found: Counter[Part] = Counter()
    for request in log:
        if request.status == 206 and request.fault in ("", "delay", "slow"):
            key = request.key.removeprefix(prefix + "/")
            within = next((each for each in ranges.get(key, []) if each[0] <= request.start < each[1]), (0, 0))
            # Up, at the start: the rest of a body that was cut does not hold its first part whole.
            first = -(-(request.start - within[0]) // part_bytes)
            last = -(-(request.end - within[0]) // part_bytes)
            found.update((key, within, part) for part in range(first, last))
    return found
