"""Syncing comes later or at the close, all of it, once, and an error in one does not stop the rest."""

import os
import threading
from pathlib import Path

from penstock.store.cache.cache import NodeCache
from penstock.store.cache.pins import SyncQueue
from tests.store.folder_remote import FolderRemote, open_in


def test_what_waits_is_done_at_the_close_in_order_and_once() -> None:
    syncs, done = SyncQueue(), []

    def broken() -> None:
        raise OSError("the disk is gone")

    for job in (lambda: done.append(1), broken, lambda: done.append(2)):
        syncs.add(job)
    syncs.close()
    assert done == [1, 2]
    syncs.close()
    syncs.add(lambda: done.append(3))
    syncs.close()
    assert done == [1, 2, 3]


def test_it_is_done_in_the_background_without_a_close() -> None:
    syncs, done = SyncQueue(), threading.Event()
    syncs.add(done.set)
    assert done.wait(timeout=60)
    syncs.close()


def test_what_a_dead_process_left_unsynced_is_synced_by_who_opens_it_next(tmp_path: Path) -> None:
    remote = FolderRemote(tmp_path / "bucket")
    remote.put("a", os.urandom(2_500))
    child = os.fork()
    if child == 0:
        open_in(NodeCache(tmp_path / "cache", 10_000, part_bytes=1_000), remote, "a").fetch_whole()
        os._exit(0)
    os.waitpid(child, 0)
    cache = NodeCache(tmp_path / "cache", 10_000)
    blob = open_in(cache, remote, "a")
    (have,) = (tmp_path / "cache").rglob("*.have")
    assert have.read_bytes() == b"\1\1\1"
    cache.close()
    assert have.read_bytes() == b"\1\1\1\1"
    blob.close()
