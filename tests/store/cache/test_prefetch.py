"""Fetching ahead keeps the order, keeps what is wanted and lets go of the rest; what is urgent does not queue."""

import os
import threading
import time
from pathlib import Path

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.admission import CacheInUse
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.remote.remote import ObjectMissing
from tests.store.folder_remote import FolderRemote

PART = 1_000
SIZE = 4_500


@pytest.fixture
def remote(tmp_path: Path) -> FolderRemote:
    remote = FolderRemote(tmp_path / "bucket")
    for key in "abcdefgh":
        remote.put(key, os.urandom(SIZE))
    return remote


def store_of(tmp_path: Path, remote: FolderRemote, max_bytes: int = 100_000, patience: float = 5) -> CachedStore:
    return CachedStore(remote, NodeCache(tmp_path / "cache", max_bytes, part_bytes=PART, patience=patience))


def prefetcher_of(store: CachedStore, concurrency: int = 8, bandwidth: float | None = None) -> Prefetcher:
    return Prefetcher(store.cache, concurrency, bandwidth)


def want(store: CachedStore, path: str, start: int = 0, end: int | None = None) -> Extent:
    return Extent(Unit(store, path), start, end)


def test_wants_are_fetched_in_their_order(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store, concurrency=1)
    ahead.want(
        [want(store, "c"), want(store, "a", 3_000, 3_100), want(store, "b"), want(store, "a", 0, 10), want(store, "a")]
    )
    ahead.drain()
    ahead.close()
    assert remote.gets == [
        ("c", 0, SIZE),
        ("a", 3_000, 4_000),
        ("b", 0, SIZE),
        ("a", 0, 1_000),
        ("a", 1_000, 3_000),
        ("a", 4_000, SIZE),
    ]


def test_nothing_is_asked_for_that_is_not_wanted_and_nothing_twice(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store, concurrency=8)
    wants = [want(store, key, start, start + 900) for start in (0, 900, 1_800) for key in "abcd"]
    ahead.want(wants)
    ahead.want(wants[::-1])
    ahead.drain()
    ahead.close()
    parts = [(key, part) for key, start, end in remote.gets for part in range(start // PART, -(-end // PART))]
    assert sorted(parts) == [(key, part) for key in "abcd" for part in range(3)]


def test_what_is_wanted_is_pinned_and_what_no_longer_is_can_go(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store)
    ahead.want([want(store, "a"), want(store, "b")])
    ahead.drain()
    assert maintenance.stat(store.cache).pinned == 2
    ahead.want([want(store, "b"), want(store, "c")])
    ahead.drain()
    assert maintenance.stat(store.cache).pinned == 2
    assert maintenance.clear(store.cache) == (SIZE, 2 * SIZE)
    assert sum(key == "b" for key, _, _ in remote.gets) == 1
    ahead.close()
    assert maintenance.stat(store.cache).pinned == 0


def test_a_want_without_a_range_pins_and_fetches_nothing(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store)
    ahead.want([want(store, "a", 0, 0)])
    ahead.drain()
    assert maintenance.stat(store.cache).pinned == 1 and remote.gets == []
    ahead.close()


def test_an_urgent_read_overtakes_the_list(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    held_up = threading.Event()

    def before_get(start: int, end: int) -> None:
        if remote.gets[-1][0] != "h":
            held_up.wait()

    remote.before_get = before_get
    ahead = prefetcher_of(store, concurrency=2)
    ahead.want([want(store, key) for key in "abcdefgh"])
    blob = store.open("h")
    blob.readinto(memoryview(bytearray(10)), 2_000)
    assert ("h", 2_000, 3_000) in remote.gets and len(remote.gets) <= 3
    held_up.set()
    ahead.drain()
    ahead.close()


def test_a_reader_that_waits_for_its_extents_does_not_cut_their_requests(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    remote.before_get = lambda start, end: time.sleep(0.02)
    ahead = prefetcher_of(store, concurrency=2)
    ahead.want([want(store, key) for key in "abcdefgh"])
    for key in "abcdefgh":
        ahead.wait_for([want(store, key)])
        for start in range(0, SIZE, 500):
            store.open(key).readinto(memoryview(bytearray(500)), start)
    ahead.close()
    assert sorted(remote.gets) == [(key, 0, SIZE) for key in "abcdefgh"]
    assert 0 < store.cache.counters.mine().misses <= 8


@pytest.mark.parametrize("concurrency", [0, 4])
def test_a_reader_does_not_wait_for_room_or_for_what_failed(
    tmp_path: Path, remote: FolderRemote, concurrency: int
) -> None:
    store = store_of(tmp_path, remote, max_bytes=2 * SIZE, patience=60)
    ahead = prefetcher_of(store, concurrency)
    wants = [want(store, key) for key in ("a", "missing", "b", "c")]
    ahead.want(wants)
    ahead.wait_for(wants[:3])
    assert sorted(remote.gets) == [("a", 0, SIZE), ("b", 0, SIZE)]
    ahead.wait_for(wants)
    ahead.close()
    ahead.wait_for(wants)


def test_a_reader_fetches_for_itself_when_nothing_arrives(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    held_up = threading.Event()

    def before_get(start: int, end: int) -> None:
        if remote.gets[-1][0] == "a":
            held_up.wait(60)

    remote.before_get = before_get
    ahead = prefetcher_of(store, concurrency=1)
    ahead.want([want(store, "a"), want(store, "b")])
    ahead.wait_for([want(store, "b")])
    store.open("b").readinto(memoryview(bytearray(10)), 2_000)
    assert remote.gets == [("a", 0, SIZE), ("b", 2_000, 3_000)]
    held_up.set()
    ahead.close()


def test_a_want_that_does_not_fit_waits_until_something_is_let_go(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote, max_bytes=2 * SIZE, patience=60)
    ahead = prefetcher_of(store)
    ahead.want([want(store, key) for key in "abc"])
    while len({key for key, _, _ in remote.gets}) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    assert {key for key, _, _ in remote.gets} == {"a", "b"}
    ahead.want([want(store, key) for key in "bc"])
    ahead.drain()
    assert {key for key, _, _ in remote.gets} == {"a", "b", "c"}
    ahead.close()


def test_a_window_that_can_never_fit_is_an_error_for_who_waits_for_it(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote, max_bytes=2 * SIZE, patience=0.2)
    ahead = prefetcher_of(store)
    ahead.want([want(store, key) for key in "abc"])
    with pytest.raises(CacheInUse, match=r"at least 13,500"):
        ahead.drain()
    ahead.close()


def test_an_error_does_not_stop_the_rest_and_is_told_to_who_waits(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store)
    ahead.want([want(store, "nowhere"), want(store, "a")])
    with pytest.raises(ObjectMissing, match="nowhere"):
        ahead.drain()
    assert ("a", 0, SIZE) in remote.gets
    ahead.close()


def test_the_bandwidth_spreads_the_requests(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store, concurrency=4, bandwidth=50_000)
    begin = time.monotonic()
    ahead.want([want(store, key) for key in "abcde"])
    ahead.drain()
    ahead.close()
    assert time.monotonic() - begin > 4 * 5 * PART / 50_000, "the fifth starts when the four before it are paid for"


def test_a_forked_child_fetches_for_itself(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store)
    ahead.want([want(store, "a")])
    ahead.drain()
    child = os.fork()
    if child == 0:
        ahead.want([want(store, "b")])
        ahead.drain()
        os._exit(0 if remote.gets == [("a", 0, SIZE), ("b", 0, SIZE)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert maintenance.stat(store.cache).pinned == 1
    ahead.close()


def test_who_drains_is_told_when_all_that_is_wanted_instead_is_here(tmp_path: Path, remote: FolderRemote) -> None:
    met, go_on = threading.Event(), threading.Event()
    for name in ("small", "other"):
        remote.put(name, bytes(500))
    store = store_of(tmp_path, remote)
    prefetcher = prefetcher_of(store, concurrency=1)
    prefetcher.want([want(store, "small")])
    prefetcher.drain()
    remote.before_get = lambda start, end: (met.set(), go_on.wait(60))[0]
    prefetcher.want([want(store, "small"), want(store, "other")])
    assert met.wait(60)
    drained = threading.Thread(target=prefetcher.drain, daemon=True)
    drained.start()
    while not prefetcher._changed._waiters:  # type: ignore[attr-defined]
        time.sleep(0.01)
    prefetcher.want([want(store, "small")])  # the only thread is in a request and can tell nobody
    drained.join(60)
    assert not drained.is_alive()
    go_on.set()
    prefetcher.close()


def test_a_caller_hears_when_the_urgent_extents_are_here_and_when_all_are(tmp_path: Path, remote: FolderRemote) -> None:
    store = store_of(tmp_path, remote)
    ahead = prefetcher_of(store, concurrency=1)
    heard: list[int] = []
    ahead.want([want(store, key) for key in "abcd"], urgent=2, when_here=lambda: heard.append(len(remote.gets)))
    ahead.drain()
    while len(heard) < 2:  # it is called after the fetch
        time.sleep(0.01)
    ahead.want([want(store, key) for key in "abcd"], urgent=2, when_here=lambda: heard.append(-1))
    ahead.want([want(store, key) for key in "abcde"], urgent=2, when_here=lambda: heard.append(len(remote.gets)))
    ahead.drain()
    ahead.close()
    assert heard == [2, 4, 5], "nothing is heard of what was here already"
