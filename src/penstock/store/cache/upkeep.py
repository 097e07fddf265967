"""Looking after a node cache by hand: what is in it, is it right, empty it. Safe beside running jobs."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.store.cache.admission import CONTROL, Resident, alone, is_pinned
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.counters import Counts
from penstock.store.cache.disk import speaking_of
from penstock.store.cache.parts import Entry, pin
from penstock.store.cache.paths import DATA
from penstock.store.digests import digest, hash_in

SCRATCH = ("manifests", "indexes")


@dataclass(frozen=True, slots=True)
class CacheStat:
    """A cache at one moment. ``reserved`` counts objects in full size, ``present`` the parts that have arrived."""

    reserved: int
    present: int
    objects: int
    complete: int
    pinned: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Verdict:
    """``bad`` are the files whose bytes are not those of their ETag; ``unchecked`` have no ETag that is a hash."""

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
    return CacheStat(reserved, present, len(residents), complete, pinned, counts)


def verify(cache: NodeCache, progress: Callable[[int, int], None] = lambda *_: None) -> Verdict:
    """Read again what is whole and named by a hash. Stores that encrypt give ETags that only look like an MD5.

    ``progress`` is told the bytes that were looked at and those that are there in all.
    """
    good, unchecked, bad, done = 0, 0, [], 0
    with speaking_of(cache.root):
        residents = cache.admission.residents()
        total = sum(resident.size for resident in residents)
        for entry in _entries(cache, residents):
            progress(done, total)
            tag = entry.path.name.removesuffix(DATA).rpartition("~")[2]
            kind = hash_in(tag) if entry.complete else ""
            if not kind:
                unchecked += 1
            elif digest(entry.path, kind) == tag:  # which is this entry's file for as long as it is pinned
                good += 1
            else:
                bad.append(str(entry.path))
            done += entry.size
        progress(total, total)
    return Verdict(good, unchecked, tuple(bad))


def clear(cache: NodeCache) -> tuple[int, int]:
    """Evict all that is not in use: (bytes removed, bytes kept because someone has them pinned)."""
    with speaking_of(cache.root), alone(cache.root):
        residents = cache.admission.residents()
        removed = sum(resident.size for resident in residents if cache.admission.remove(resident))
    return removed, sum(resident.size for resident in residents) - removed


def clear_scratch(cache: NodeCache) -> int:
    """Remove compiled filelists and learnt indexes, which are made again when needed: the bytes removed.

    Who has them mapped keeps them; hidden files are locks, and what someone is making now.
    """
    with speaking_of(cache.root), alone(cache.root):
        return sum(_remove(made) for kind in SCRATCH for made in (cache.root / CONTROL / kind).glob("[!.]*"))


def _remove(made: Path) -> int:
    """Remove a file or folder at once, so that nobody opens one that is half gone: its bytes."""
    aside = made.with_name(f".{made.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    made.rename(aside)
    size = sum(path.stat().st_size for path in (aside, *aside.rglob("*")) if path.is_file())
    if aside.is_dir():
        shutil.rmtree(aside)
    else:
        aside.unlink()
    return size


def _entries(cache: NodeCache, residents: list[Resident]) -> Iterator[Entry]:
    """Each one pinned while it is looked at, and its time of use left as it was."""
    for resident in residents:
        entry = pin(Path(resident.path), resident.size, cache.part_bytes)
        if entry is not None:  # it may have been evicted meanwhile
            try:
                yield entry
            finally:
                entry.close()
