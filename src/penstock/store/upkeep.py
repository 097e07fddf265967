"""Looking after a node cache by hand: what is in it, is it right, empty it. Safe beside running jobs."""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.store.admission import Resident, alone, is_pinned
from penstock.store.cache import NodeCache
from penstock.store.cachepaths import DATA
from penstock.store.counters import Counts
from penstock.store.disk import speaking_of
from penstock.store.parts import Entry, pin

_MD5 = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class CacheStat:
    """A cache at one moment. ``reserved`` counts objects in full size, ``present`` the parts that have arrived."""

    max_bytes: int
    reserved: int
    present: int
    objects: int
    complete: int
    pinned: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Verdict:
    """``bad`` are the files whose bytes are not those of their ETag; ``unchecked`` have no ETag that is an MD5."""

    good: int
    unchecked: int
    bad: tuple[str, ...]


def stat(cache: NodeCache) -> CacheStat:
    with speaking_of(cache.root), alone(cache.root):
        residents = cache.admission.residents()
        pinned = sum(is_pinned(resident.path) for resident in residents)
        counts = cache.counters.node()
        present = complete = 0
        for entry in _entries(cache, residents):
            present += entry.present
            complete += entry.complete
    reserved = sum(resident.size for resident in residents)
    return CacheStat(cache.max_bytes, reserved, present, len(residents), complete, pinned, counts)


def verify(cache: NodeCache) -> Verdict:
    """Read again what is whole and named by an MD5. Stores that encrypt give ETags that only look like one."""
    good, unchecked, bad = 0, 0, []
    with speaking_of(cache.root):
        for entry in _entries(cache, cache.admission.residents()):
            tag = entry.path.name.removesuffix(DATA).rpartition("~")[2]
            if not entry.complete or not _MD5.fullmatch(tag):
                unchecked += 1
            elif _md5(entry) == tag:
                good += 1
            else:
                bad.append(str(entry.path))
    return Verdict(good, unchecked, tuple(bad))


def clear(cache: NodeCache) -> tuple[int, int]:
    """Evict all that is not in use: (bytes removed, bytes kept because someone has them pinned)."""
    with speaking_of(cache.root), alone(cache.root):
        residents = cache.admission.residents()
        removed = sum(resident.size for resident in residents if cache.admission.remove(resident))
    return removed, sum(resident.size for resident in residents) - removed


def _entries(cache: NodeCache, residents: list[Resident]) -> Iterator[Entry]:
    """Each one pinned while it is looked at, and its time of use left as it was."""
    for resident in residents:
        entry = pin(Path(resident.path), resident.size, cache.part_bytes)
        if entry is not None:  # it may have been evicted meanwhile
            try:
                yield entry
            finally:
                entry.close()


def _md5(entry: Entry) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for offset in range(0, entry.size, 1 << 20):
        digest.update(os.pread(entry.data.fd, 1 << 20, offset))
    return digest.hexdigest()
