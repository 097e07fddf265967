"""A node cache without files: the same policy over sizes, parts and times of use. Knows no plan."""

from dataclasses import dataclass, field
from operator import attrgetter

from penstock.store.cache.policy import EVICTED_TIME, fits, make_room, missing_runs


@dataclass(slots=True)
class ModelEntry:
    """An entry of the cache.

    Attributes:
        path: Path in the cache; entries of one time are evicted in the order of their paths.
        size: Size in bytes, which is reserved from the start.
        have: One byte per part: 1 if it was fetched.
        used_share: Share of the items that were used since it was admitted, where parts are not counted.
        arrived: Bytes fetched by the cache when the part was there, by number of the part.
        used: Time of use.
        pins: Number of processes that have it pinned.
    """

    path: str
    size: int
    have: bytearray
    used: int
    pins: int = 0
    used_share: float = 0.0
    arrived: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class CacheCounts:
    """What a cache did so far.

    Attributes:
        requests: Requests for bytes.
        bytes_fetched: Bytes that were downloaded.
        bytes_again: Of these, bytes that had been downloaded before.
        evictions: Entries that were evicted.
        bytes_evicted: Their sizes.
        downloads: Entries of which bytes were fetched, each time that they were admitted.
        pins: Times that an entry was pinned which no process had pinned.
        hits: Of these, entries that were in the cache.
        unplanned: Times that there was no room to fetch ahead.
        space_requests: Times that a reader found no room, and everything that was pinned for later was unpinned.
    """

    requests: int = 0
    bytes_fetched: int = 0
    bytes_again: int = 0
    evictions: int = 0
    bytes_evicted: int = 0
    downloads: int = 0
    pins: int = 0
    hits: int = 0
    unplanned: int = 0
    space_requests: int = 0


@dataclass(slots=True)
class CacheModel:
    """The entries of one node's cache; see ``store.cache.policy``.

    Attributes:
        max_bytes: Bound of the cache.
        part_bytes: Bytes per part.
        clock: Present time.
        held: Bytes in the cache: the sizes of all entries.
        distinct_bytes: Sizes of all entries that were ever admitted, each once.
        pinned: Bytes that are pinned.
        most_pinned: Most bytes that were pinned at once.
        largest: Size of the largest entry.
        counts: What the cache did so far.
        seen_share: Largest share of the items of each entry that was ever used, where parts are not counted.
    """

    max_bytes: int
    part_bytes: int
    clock: int = 0
    held: int = 0
    distinct_bytes: int = 0
    pinned: int = 0
    most_pinned: int = 0
    largest: int = 0
    counts: CacheCounts = field(default_factory=CacheCounts)
    seen_share: dict[str, float] = field(default_factory=dict)
    _entries: dict[str, ModelEntry] = field(default_factory=dict)
    _seen: dict[str, bytearray] = field(default_factory=dict)  # parts that were ever fetched

    def pin(self, path: str, size: int) -> ModelEntry | None:
        """Pin an entry, and admit it if it is not in the cache; None if there is no room beside what is pinned."""
        entry = self._entries.get(path)
        found = entry is not None
        if entry is None:
            if not self.make_room(size):
                return None
            entry = ModelEntry(path, size, bytearray(-(-size // self.part_bytes)), self.clock)
            self._entries[path] = entry
            self.held += size
            if path not in self._seen:
                self._seen[path] = bytearray(len(entry.have))
                self.distinct_bytes += size
                self.largest = max(self.largest, size)
        entry.used = self.clock
        entry.pins += 1
        if entry.pins == 1:
            self.counts.pins += 1
            self.counts.hits += found
            self.pinned += size
            self.most_pinned = max(self.most_pinned, self.pinned)
        return entry

    def make_room(self, size: int) -> bool:
        """Evict until so many bytes fit. Returns whether they do."""
        self.held = make_room(self.held, size, self.max_bytes, self._least_recent, self._evict).held
        return fits(self.held, size, self.max_bytes)

    def holds(self, path: str) -> bool:
        """Return whether an entry is in the cache."""
        return path in self._entries

    def fill(self, entry: ModelEntry) -> None:
        """Mark all bytes of an entry as present: it was made, not downloaded."""
        entry.have[:] = b"\1" * len(entry.have)

    def unpin(self, entry: ModelEntry) -> None:
        """Release a pin: the time of the last use."""
        entry.used = self.clock
        entry.pins -= 1
        if not entry.pins:
            self.pinned -= entry.size

    def finished(self, path: str) -> None:
        """Mark an entry as no longer needed: it is evicted first."""
        if entry := self._entries.get(path):
            entry.used = EVICTED_TIME

    def fetch(self, entry: ModelEntry, start: int, end: int | None) -> int:
        """Fetch the missing parts of a range. Returns the number of bytes that were fetched."""
        end = entry.size if end is None else min(end, entry.size)
        if start >= end:
            return 0
        first = start // self.part_bytes
        last = -(-end // self.part_bytes)
        known = entry.have[first:last]
        if 0 not in known:
            return 0
        seen = self._seen[entry.path]
        self.counts.downloads += 1 not in entry.have
        before = self.counts.bytes_fetched
        for low, high in missing_runs(known, first, self.part_bytes):
            self.counts.requests += 1
            self.counts.bytes_fetched += min(high * self.part_bytes, entry.size) - low * self.part_bytes
            for part in range(low, high):
                if seen[part]:
                    self.counts.bytes_again += min((part + 1) * self.part_bytes, entry.size) - part * self.part_bytes
            entry.arrived |= dict.fromkeys(range(low, high), self.counts.bytes_fetched)
            entry.have[low:high] = seen[low:high] = b"\1" * (high - low)
        return self.counts.bytes_fetched - before

    def needed(self, entry: ModelEntry, start: int, end: int | None) -> int:
        """Return the bytes fetched by the cache when all parts of a range were there."""
        end = entry.size if end is None else min(end, entry.size)
        parts = range(start // self.part_bytes, -(-end // self.part_bytes))
        return max((entry.arrived.get(part, 0) for part in parts), default=0)

    def _least_recent(self) -> list[ModelEntry]:
        return sorted(self._entries.values(), key=attrgetter("used", "path"))

    def _evict(self, entry: ModelEntry) -> bool:
        if entry.pins:
            return False
        del self._entries[entry.path]
        self.counts.evictions += 1
        self.counts.bytes_evicted += entry.size
        return True
