"""A process that is stopped and holds a lock is told of, and not waited for."""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store.cache import lockwait
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.derived import DerivedStore, piece_path
from penstock.store.cache.locks import LockedFile
from penstock.store.local import LocalStore
from tests.store.cache.test_derived import Repeat, content, expected
from tests.store.folder_remote import FolderRemote, open_in

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockwait, "LOG_AFTER_SECONDS", 0.3)


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Processes that are to be ended, stopped or not."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def in_the_middle(work: object, sign: Path, pids: list[int]) -> int:
    """Fork a process that does some work, and stop it when the work has made a file."""
    child = os.fork()
    if child == 0:
        work()  # type: ignore[operator]
        os._exit(0)
    pids.append(child)
    until = time.monotonic() + 60
    while not sign.exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    os.kill(child, signal.SIGSTOP)
    return child


def test_a_part_whose_fetcher_is_stopped_is_fetched_by_who_waits(
    tmp_path: Path, stopped: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    sign = tmp_path / "sign"

    def hang(*_: int) -> None:
        sign.touch()
        time.sleep(600)

    remote = FolderRemote(tmp_path / "bucket")
    data = remote.put("a", os.urandom(2_500))

    def fetch() -> None:
        slow = FolderRemote(tmp_path / "bucket", before_get=hang)
        open_in(NodeCache(tmp_path / "cache", 10_000, part_bytes=1_000), slow, "a").fetch_whole()

    pid = in_the_middle(fetch, sign, stopped)
    blob = open_in(NodeCache(tmp_path / "cache", 10_000, part_bytes=1_000), remote, "a")
    buffer = bytearray(2_500)
    with caplog.at_level(logging.WARNING, "penstock.cache"):
        blob.readinto(memoryview(buffer), 0)
    assert bytes(buffer) == data
    assert f"process {pid}, which is stopped, holds its lock" in caplog.text
    assert "not waiting any longer for part 0 of a~" in caplog.text


def test_pieces_whose_maker_is_stopped_are_made_by_who_waits(
    tmp_path: Path, stopped: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "two").write_bytes(b"two")
    slow = Repeat(folder, tmp_path / "notes", pause=600)

    def store(maker: Repeat) -> DerivedStore:
        return DerivedStore(LocalStore(folder), maker, NodeCache(tmp_path / "cache", 10_000, part_bytes=1_000))

    in_the_middle(lambda: store(slow).open(piece_path("two", 0)), tmp_path / "notes", stopped)
    maker = Repeat(folder, tmp_path / "notes")
    assert content(store(maker).open(piece_path("two", 1))) == expected("two", 1)
    assert "which is stopped" in caplog.text


def test_a_process_that_runs_is_waited_for_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "file"
    with LockedFile(path, os.O_RDWR | os.O_CREAT) as holder, LockedFile(path, os.O_RDWR) as waiter:
        holder.lock(7)
        threading.Timer(1.0, holder.unlock, (7,)).start()
        assert lockwait.lock_in_time(waiter, 7, lambda: False, "the part")
    assert f"waiting for the part for 0 s: process {os.getpid()} holds its lock" in caplog.text


def test_a_holder_is_found_while_it_opens_and_closes_other_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            for fd in [os.open("/dev/null", os.O_RDONLY) for _ in range(50)]:
                os.close(fd)

    # Descriptors are listed in order: those that come and go are before the one with the lock.
    gaps = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    with LockedFile(path, os.O_RDWR | os.O_CREAT) as holder:
        for fd in gaps:
            os.close(fd)
        holder.lock(7)
        thread = threading.Thread(target=busy)
        thread.start()
        try:
            found = [dict(lockwait.holders(holder, 7)) for _ in range(30)]
        finally:
            stop.set()
            thread.join()
    assert all(os.getpid() in each for each in found)


def test_what_another_has_done_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with LockedFile(path, os.O_RDWR | os.O_CREAT) as holder, LockedFile(path, os.O_RDWR) as waiter:
        holder.lock(0)
        assert not lockwait.lock_in_time(waiter, 0, lambda: True, "the part")
