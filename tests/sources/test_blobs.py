"""Open blobs are few, shared, and never closed under a reader."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.sources.blobs import OpenBlobs
from penstock.store.blob import Blob
from penstock.store.local import LocalStore


class Watched(LocalStore):
    """A local store that remembers what it opened."""

    def __init__(self, root: Path):
        super().__init__(root)
        self.opened: list[tuple[str, Blob]] = []

    def open(self, path: str):  # type: ignore[no-untyped-def]
        blob = super().open(path)
        self.opened.append((path, blob))
        return blob


def is_open(blob: Blob) -> bool:
    try:
        read(blob)
    except ValueError:
        return False
    return True


def read(blob: Blob) -> bytes:
    buffer = bytearray(blob.size)
    blob.readinto([memoryview(buffer)], 0)
    return bytes(buffer)


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    for number in range(20):
        (tmp_path / f"{number}").write_text(f"blob {number}")
    return Watched(tmp_path)


def test_the_blobs_used_last_stay_open(store: Watched) -> None:
    blobs = OpenBlobs(store, capacity=2)
    for path in ("0", "1", "0", "2", "0"):
        with blobs.use(path) as blob:
            assert read(blob) == f"blob {path}".encode()
    assert [path for path, _ in store.opened] == ["0", "1", "2"]
    assert [is_open(blob) for _, blob in store.opened] == [True, False, True]
    blobs.close()
    assert not any(is_open(blob) for _, blob in store.opened)


def test_a_blob_in_use_is_closed_by_its_last_user(store: Watched) -> None:
    blobs = OpenBlobs(store, capacity=1)
    with blobs.use("0") as blob:
        with blobs.use("0"), blobs.use("1"):
            pass
        assert read(blob) == b"blob 0"
        blobs.close()
        assert read(blob) == b"blob 0"
    assert not is_open(blob)


def test_many_threads_read_right_bytes_and_nothing_stays_open(store: Watched) -> None:
    blobs = OpenBlobs(store, capacity=3)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(300):
            path = str(rng.randrange(20))
            with blobs.use(path) as blob:
                assert read(blob) == f"blob {path}".encode()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(is_open(blob) for _, blob in store.opened) == 3
    blobs.close()
    assert not any(is_open(blob) for _, blob in store.opened)


def test_an_open_that_fails_leaves_nothing_behind(store: Watched) -> None:
    blobs = OpenBlobs(store, capacity=2)
    for _ in range(2):
        with pytest.raises(FileNotFoundError), blobs.use("nowhere"):
            pass
    with blobs.use("1") as blob:
        assert read(blob) == b"blob 1"


def test_a_forked_child_opens_its_own_even_if_a_thread_held_the_lock(store: Watched) -> None:
    blobs = OpenBlobs(store, capacity=2)
    with blobs.use("0"):
        pass
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
            with blobs.use("0") as blob:
                right = read(blob) == b"blob 0" and blob is not store.opened[0][1]
            os._exit(0 if right else 1)
        except BaseException:
            os._exit(2)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_open(store.opened[0][1]), "the parent's blob is its own"
