"""Open blobs are few, shared, and never closed under a reader."""

import os
import random
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.readers.blobs import OPEN_PINS, OpenBlobs
from penstock.store.blob import Blob
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalBlob, LocalStore
from tests.store.folder_remote import FolderRemote


class Watched(LocalStore):
    """A local store that knows which of the blobs it opened are still there, and the files open."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.opened: list[tuple[str, weakref.ref[LocalBlob]]] = []

    def open_file(self, path: str) -> LocalBlob:
        blob = super().open_file(path)
        self.opened.append((path, weakref.ref(blob)))
        return blob

    def still_open(self) -> list[str]:
        return [path for path, blob in self.opened if blob() is not None]


def read(blob: Blob) -> bytes:
    buffer = bytearray(blob.size)
    blob.readinto(memoryview(buffer), 0)
    return bytes(buffer)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    for number in range(20):
        (tmp_path / f"{number}").write_text(f"blob {number}")
    return Watched(tmp_path)


def test_the_blobs_used_last_stay_open(store: Watched) -> None:
    before = descriptors()
    blobs = OpenBlobs(lambda: store, capacity=2)
    for path in ("0", "1", "0", "2", "0"):
        assert read(blobs.get(path)) == f"blob {path}".encode()
    assert [path for path, _ in store.opened] == ["0", "1", "2"]
    assert store.still_open() == ["0", "2"]
    assert descriptors() == before + 2
    blobs.close()
    assert store.still_open() == [] and descriptors() == before


def test_a_blob_in_use_is_closed_by_its_last_user(store: Watched) -> None:
    blobs = OpenBlobs(lambda: store, capacity=1)
    mine, also = blobs.get("0"), blobs.get("0")
    assert mine is also
    blobs.get("1")
    assert read(mine) == b"blob 0"
    blobs.close()
    del also
    assert read(mine) == b"blob 0"
    del mine
    assert store.still_open() == []


@pytest.fixture
def cached(store: Watched, tmp_path: Path) -> CachedStore:
    """The same blobs from afar."""
    return CachedStore(FolderRemote(store.root), NodeCache(tmp_path / "cache", 1_000_000))


def test_few_blobs_of_a_cache_stay_open_as_they_are_pinned_there(cached: CachedStore) -> None:
    blobs = OpenBlobs(lambda: cached)
    for number in range(20):
        assert read(blobs.get(f"{number}")) == f"blob {number}".encode()
    assert maintenance.stat(cached.cache).pinned == OPEN_PINS
    blobs.close()
    assert maintenance.stat(cached.cache).pinned == 0


def test_all_but_what_is_in_use_are_let_go_of_when_a_reader_finds_no_room(cached: CachedStore) -> None:
    blobs = OpenBlobs(lambda: cached)
    mine = blobs.get("0")
    for number in range(1, 4):
        blobs.get(f"{number}")
    cached.cache.space_requests.request()
    assert maintenance.stat(cached.cache).pinned == 1
    assert read(mine) == b"blob 0"
    for number in range(4, 7):
        blobs.get(f"{number}")
    cached.cache.space_requests.request()
    assert maintenance.stat(cached.cache).pinned == 1, "each time"


def test_many_threads_read_right_bytes_and_nothing_stays_open(store: Watched) -> None:
    blobs = OpenBlobs(lambda: store, capacity=3)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(300):
            path = str(rng.randrange(20))
            assert read(blobs.get(path)) == f"blob {path}".encode()
            if not rng.randrange(10):
                blobs.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(store.still_open()) <= 3
    blobs.close()
    assert store.still_open() == []


def test_an_open_that_fails_leaves_nothing_behind(store: Watched) -> None:
    blobs = OpenBlobs(lambda: store, capacity=2)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            blobs.get("nowhere")
    assert read(blobs.get("1")) == b"blob 1"


def test_a_forked_child_opens_its_own_even_if_a_thread_held_the_lock(store: Watched) -> None:
    blobs = OpenBlobs(lambda: store, capacity=2)
    parents = blobs.get("0")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with blobs._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        try:
            blob = blobs.get("0")
            os._exit(0 if read(blob) == b"blob 0" and blob is not parents else 1)
        except BaseException:
            os._exit(2)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read(parents) == b"blob 0", "the parent's blob is its own"
