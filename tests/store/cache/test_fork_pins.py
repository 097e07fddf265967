"""A fork takes no pin from the parent, whatever the child does with what it inherits."""

import os
import threading
from pathlib import Path

import pytest

from penstock.readers.blobs import OpenBlobs
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from tests.store.folder_remote import FolderRemote


@pytest.fixture
def store(tmp_path: Path) -> CachedStore:
    remote = FolderRemote(tmp_path / "bucket")
    for key in "abc":
        remote.put(key, os.urandom(3_000))
    return CachedStore(remote, NodeCache(tmp_path / "cache", 10**6, part_bytes=1_000))


def forked() -> int:
    """The exit code of a child that does nothing."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_readers_and_the_prefetcher_have_pinned_stays_pinned(
    store: CachedStore, capfd: pytest.CaptureFixture[str]
) -> None:
    blobs = OpenBlobs(lambda: store)
    blobs.get("a").readinto(memoryview(bytearray(10)), 0)
    prefetcher = Prefetcher(store.cache)
    prefetcher.want([Extent(Unit(store, "b"), 0)])
    prefetcher.drain()
    held = store.open("c")
    assert maintenance.stat(store.cache).pinned == 3
    assert forked() == 0
    assert maintenance.stat(store.cache).pinned == 3
    assert capfd.readouterr().err == ""
    held.close()
    blobs.close()
    prefetcher.close()
    assert maintenance.stat(store.cache).pinned == 0


@pytest.mark.timeout(60)
def test_a_fork_while_a_thread_has_the_lock_of_the_pins_does_not_hang_the_child(store: CachedStore) -> None:
    blobs = OpenBlobs(lambda: store)  # made before the cache is first used, as a reader of one's own may do
    blobs.get("a")
    entered = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with store.cache.pins._lock:
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        blobs.get("b").readinto(memoryview(bytearray(10)), 0)
        os._exit(0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    blobs.close()
