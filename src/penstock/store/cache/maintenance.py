"""Inspecting, verifying and clearing a node cache. Safe while jobs are running."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.store.cache.account import CONTROL, admission_lock
from penstock.store.cache.admission import Resident, is_pinned
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.counters import Counts
from penstock.store.cache.disk import explaining_disk_errors
from penstock.store.cache.entry import CacheEntry, pin
from penstock.store.cache.paths import DATA
from penstock.store.digests import digest, hash_in

INDEXES = "indexes"
SCRATCH = ("manifests", INDEXES)


@dataclass(frozen=True, slots=True)
class CacheStat:
    """A cache at one moment. ``reserved`` is the sum of object sizes in bytes, ``present`` that of fetched parts."""

    reserved: int
    present: int
    objects: int
    complete: int
    pinned: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """Result of ``verify``. ``bad`` files do not match their ETag; the ETag of ``unchecked`` ones is not a hash."""

    good: int
    incomplete: int
    unchecked: int
    bad: tuple[str, ...]


def stat(cache: NodeCache) -> CacheStat:
    """Return the cache's contents and its counters, summed over all processes of the node."""
    with explaining_disk_errors(cache.root), admission_lock(cache.root):
        residents = cache.admission.residents()
        pinned = sum(is_pinned(resident.path) for resident in residents)
        counts = cache.counters.node()
        present = 0
        complete = 0
        for entry in _entries(cache, residents):
            present += entry.present
            complete += entry.complete
    reserved = sum(resident.size for resident in residents)
    return CacheStat(reserved, present, len(residents), complete, pinned, counts)


def verify(cache: NodeCache, progress: Callable[[int, int], None] = lambda *_: None) -> VerifyResult:
    """Compare complete objects with their ETag where it is a hash. ETags of encrypted stores may look like an MD5.

    Args:
        progress: Function called with the bytes checked so far and in total.
    """
    good = 0
    incomplete = 0
    unchecked = 0
    bad = []
    done = 0
    with explaining_disk_errors(cache.root):
        residents = cache.admission.residents()
        total = sum(resident.size for resident in residents)
        for entry in _entries(cache, residents):
            progress(done, total)
            tag = entry.path.name.removesuffix(DATA).rpartition("~")[2]
            kind = hash_in(tag)
            if not entry.complete:
                incomplete += 1
            elif not kind:
                unchecked += 1
            elif digest(entry.path, kind) == tag:  # the path is this entry's for as long as it is pinned
                good += 1
            else:
                bad.append(str(entry.path))
            done += entry.size
        progress(total, total)
    return VerifyResult(good, incomplete, unchecked, tuple(bad))


def clear(cache: NodeCache) -> tuple[int, int]:
    """Evict all objects that are not pinned.

    Returns:
        Bytes removed, and bytes kept because they are pinned.
    """
    with explaining_disk_errors(cache.root):
        return cache.admission.clear()


def clear_scratch(cache: NodeCache) -> int:
    """Remove compiled filelists and stored indexes, which are made again when needed.

    Processes that have them mapped keep them. Hidden files stay: they are locks, and files that are being made.

    Returns:
        Bytes removed.
    """
    with explaining_disk_errors(cache.root), admission_lock(cache.root):
        return sum(_remove(made) for kind in SCRATCH for made in (cache.root / CONTROL / kind).glob("[!.]*"))


def _remove(made: Path) -> int:
    """Remove a file or folder atomically, so that no process opens half of it. Returns its size in bytes."""
    aside = made.with_name(f".{made.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    made.rename(aside)
    size = sum(path.stat().st_size for path in (aside, *aside.rglob("*")) if path.is_file())
    if aside.is_dir():
        shutil.rmtree(aside)
    else:
        aside.unlink()
    return size


def _entries(cache: NodeCache, residents: list[Resident]) -> Iterator[CacheEntry]:
    """Yield each entry, pinned meanwhile. Its time of use does not change."""
    for resident in residents:
        entry = pin(Path(resident.path), resident.size, cache.part_bytes)
        if entry is not None:  # it may have been evicted meanwhile
            try:
                yield entry
            finally:
                entry.close()
