"""Fetching ahead of the steps: what a step needs, what stays pinned, and how it keeps out of the readers' way."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.ahead import Ahead, needed
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.reader import TarSource
from penstock.store.cache import upkeep
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Want
from penstock.store.local import LocalStore
from tests.shards import small_run, write_shards
from tests.store.folder_remote import FolderRemote

SIZES = {"hindi": [9, 6, 8, 7], "odia": [7, 5, 6]}
PART = 1_024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    write_shards(folder, SIZES, bytes_each=1_500)
    shards = [path.name for path in folder.glob("*.tar")]
    index_shards(LocalStore(folder), shards, folder / "index", filelist=folder / "train.tsv")
    return folder


def opened(folder: Path, **options: Any) -> Feed:
    run = {key: value for key, value in small_run(folder).items() if key != "filelist"}
    return penstock.open({**run, "manifest": folder / "index", "global_batch_size": 3, **options}, rank=0, world=1)


def ahead_of(feed: Feed, folder: Path, cache: Path, steps: int, size: int = 10**9) -> tuple[Ahead, CachedStore]:
    """What a feed has for a remote store, over a folder that notes its requests."""
    store = CachedStore(FolderRemote(folder), NodeCache(cache, size, part_bytes=PART, patience=5))
    source = TarSource(store, feed.manifest)
    return Ahead(feed.manifest, feed.plan.order, source, store, steps, concurrency=2, bandwidth=None), store


def drained(ahead: Ahead) -> None:
    ahead._prefetcher.drain()


def test_a_step_needs_the_ranges_of_its_samples_by_shard(folder: Path) -> None:
    feed = opened(folder)
    wants = needed(feed.manifest, {3: feed.planned(3), 4: feed.planned(4)})[4]
    lines = list(feed.lines(4))
    assert [want.path for want in wants] == list(dict.fromkeys(line.group for line in lines)), "in their order"
    for want in wants:
        data = (folder / want.path).read_bytes()
        assert want.ranges is not None
        names = [line.item for line in lines if line.group == want.path]
        assert [data[start:end].rstrip(b".") for start, end in want.ranges] == [
            f"{want.path}:{name}".encode() for name in names
        ]


def test_without_an_index_a_step_needs_whole_shards_and_past_the_end_nothing(folder: Path) -> None:
    feed = penstock.open(small_run(folder, global_batch_size=3), rank=0, world=1)
    shards = dict.fromkeys(line.group for line in feed.lines(4))
    assert needed(feed.manifest, {4: feed.planned(4)}) == {4: [Want(shard, None) for shard in shards]}
    assert needed(feed.manifest, {7: None}) == {7: []}


def test_what_is_resident_stays_pinned_while_no_step_draws_from_it(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, global_batch_size=2, pool=2)
    ahead, store = ahead_of(feed, folder, tmp_path, steps=0)
    with ahead.making(0, feed.planned):
        drained(ahead)
        assert upkeep.stat(store.cache).pinned == 4, "two residents of two sources, for one sample of each"
        assert upkeep.clear(store.cache)[0] == 0
    ahead.close()
    assert upkeep.stat(store.cache).pinned == 0


def test_what_the_plan_has_left_behind_is_the_first_to_be_evicted(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, pool=1, global_batch_size=4)
    ahead, store = ahead_of(feed, folder, tmp_path, steps=0)
    used: list[str] = []
    for step in range(12):
        with ahead.making(step, feed.planned):
            drained(ahead)
            groups = feed.plan.order.residents(feed.planned(step).slot)
            now = {line.group for line in feed.lines(step)}
            now |= {
                feed.manifest.shard(int(feed.manifest.shard_of(feed.manifest.rows(s, g, 0)))).path for s, g in groups
            }
        used += sorted(now - set(used))
        residents = store.cache.admission.residents()
        names = [Path(resident.path).name.partition("~")[0] for resident in residents]
        gone = [name for name in names if name not in now]
        assert names[: len(gone)] == gone, "those that are out of sight lead the list of who leaves"
    assert len(used) > 4
    ahead.close()


def test_the_window_is_cut_to_what_the_cache_holds(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, pool=1, global_batch_size=4)
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.tar")}
    room = 3 * max(sizes.values())
    ahead, store = ahead_of(feed, folder, tmp_path, steps=12, size=room)
    for path in sizes:
        store.info(path)
    with ahead.making(0, feed.planned):
        drained(ahead)
        assert 0 < upkeep.stat(store.cache).reserved <= 0.8 * room, "some is left for other processes"
    ahead.close()


def test_a_reader_that_finds_no_room_is_let_in(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, pool=1, global_batch_size=4)
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.tar")}
    ahead, store = ahead_of(feed, folder, tmp_path, steps=12, size=2 * max(sizes.values()))
    with ahead.making(0, feed.planned):
        while upkeep.stat(store.cache).pinned < 2:
            time.sleep(0.01)
        for path in sizes:
            store.open(path).close()
    ahead.close()


@pytest.mark.parametrize("rank", range(4))
def test_a_batch_of_nothing_but_padding_needs_nothing(folder: Path, tmp_path: Path, rank: int) -> None:
    feed = opened(folder, passes=1, global_batch_size=40)
    ahead, _ = ahead_of(feed, folder, tmp_path, steps=3)
    last = len(feed) - 1

    def plan(step: int) -> Any:
        return feed.planned(step, rank, 4) if step <= last else None

    assert not (feed.planned(last, 3, 4).item >= 0).any()
    with ahead.making(last, plan):
        drained(ahead)
    ahead.close()


def test_a_child_forked_in_the_middle_of_a_step_fetches_for_itself(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder)
    ahead, store = ahead_of(feed, folder, tmp_path, steps=0)
    entered, leave = threading.Event(), threading.Event()

    def make() -> None:
        with ahead.making(0, feed.planned), ahead._lock:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=make)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        store.remote.gets.clear()  # type: ignore[attr-defined]
        with ahead.making(40, feed.planned):
            drained(ahead)
        wanted = {want.path for want in needed(feed.manifest, {40: feed.planned(40)})[40]}
        os._exit(0 if {key for key, _, _ in store.remote.gets} <= wanted else 1)  # type: ignore[attr-defined]
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ahead.close()
