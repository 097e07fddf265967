"""Fetching ahead of the steps: what a step needs, what stays pinned, and how it keeps out of the readers' way."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.feed import Feed
from penstock.feed.ahead import Ahead
from penstock.feed.catalog import Catalog
from penstock.feed.lookup import Lookup
from penstock.feed.steps import Steps
from penstock.pipelines.pipeline import Part
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.reader import TarReader
from penstock.store.cache import maintenance
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent
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


class Fetching:
    """What a feed has for a remote store, over a folder that notes its requests."""

    def __init__(self, feed: Feed, folder: Path, cache: Path, reach: int, size: int = 10**9) -> None:
        self.feed = feed
        self.remote = FolderRemote(folder)
        self.store = CachedStore(self.remote, NodeCache(cache, size, part_bytes=PART, patience=5))
        self.cache = self.store.cache
        manifest: Any = feed.catalog.parts[0].manifest
        reader = TarReader(manifest, lambda: self.store)
        self.catalog = Catalog([Part("", manifest, reader, "raw")], feed.config.seed)
        self.prefetcher = Prefetcher(self.cache, concurrency=2)
        self.ahead = Ahead(self.catalog, self.cache, reach, self.prefetcher)

    def lookup(self, steps: Steps, rank: int = 0, world: int = 1) -> Lookup:
        return Lookup(self.feed.plan, self.catalog, rank, world, self.feed.timeline(world), steps)

    @contextmanager
    def making(self, step: int, rank: int = 0, world: int = 1) -> Iterator[None]:
        """A walk that is at a step."""
        steps = Steps(step, self.feed.remaining().stop)
        window = self.ahead.begin(self.lookup(steps, rank, world), steps)
        with self.ahead.making(window, step):
            yield
        self.ahead.end(window)

    def drain(self) -> None:
        self.prefetcher.drain()

    def close(self) -> None:
        self.ahead.close()


def wanted(feed: Feed, step: int) -> list[Extent]:
    lookup = Lookup(feed.plan, feed.catalog, 0, 1, feed.timeline(1), Steps(step))
    return feed.catalog.wants(lookup.at(step).shares)


def test_a_step_wants_the_ranges_of_its_samples_in_their_order(folder: Path) -> None:
    feed = opened(folder)
    lines = list(feed.lines(4))
    found = wanted(feed, 4)
    assert [extent.unit.path for extent in found] == [line.group for line in lines]
    for extent, line in zip(found, lines, strict=True):
        data = (folder / line.group).read_bytes()
        assert data[extent.start : extent.end].rstrip(b".") == f"{line.group}:{line.item}".encode()


def test_without_an_index_a_step_wants_whole_shards(folder: Path) -> None:
    feed = penstock.open(small_run(folder, global_batch_size=3), rank=0, world=1)
    found = [(extent.unit.path, extent.start, extent.end) for extent in wanted(feed, 4)]
    assert found == [(line.group, 0, None) for line in feed.lines(4)]


def test_what_is_resident_stays_pinned_while_no_step_draws_from_it(folder: Path, tmp_path: Path) -> None:
    fetching = Fetching(opened(folder, global_batch_size=2, pool=2), folder, tmp_path, reach=0)
    with fetching.making(0):
        fetching.drain()
        assert maintenance.stat(fetching.cache).pinned == 4, "two residents of two sources, for one sample of each"
        assert maintenance.clear(fetching.cache)[0] == 0
    assert maintenance.stat(fetching.cache).pinned == 0
    fetching.close()


def test_a_single_step_pins_nothing_but_what_it_reads(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, global_batch_size=2, pool=2)
    fetching = Fetching(feed, folder, tmp_path, reach=32)
    steps = Steps(7, 8)
    window = fetching.ahead.begin(fetching.lookup(steps), steps)
    with fetching.ahead.making(window, 7):
        fetching.drain()
        assert maintenance.stat(fetching.cache).pinned == len({line.group for line in feed.lines(7)})
    assert {key for key, _, _ in fetching.remote.gets} == {line.group for line in feed.lines(7)}
    fetching.close()


def test_what_the_plan_has_left_behind_is_the_first_to_be_evicted(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder, pool=1, global_batch_size=4)
    fetching = Fetching(feed, folder, tmp_path, reach=0)
    window = fetching.ahead.begin(fetching.lookup(Steps(0)), Steps(0))
    used: list[str] = []
    for step in range(12):
        with fetching.ahead.making(window, step):
            fetching.drain()
            groups = feed.plan.order.residents(feed.planned(step).slot)
            now = {line.group for line in feed.lines(step)}
            now |= {feed.catalog.group_name(source, group) for source, group in groups}
        used += sorted(now - set(used))
        residents = fetching.cache.admission.residents()
        names = [Path(resident.path).name.partition("~")[0] for resident in residents]
        gone = [name for name in names if name not in now]
        assert names[: len(gone)] == gone, "those that are out of sight lead the list of who leaves"
    assert len(used) > 4
    fetching.close()


def test_the_window_is_cut_to_what_the_cache_holds(folder: Path, tmp_path: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.tar")}
    room = 3 * max(sizes.values())
    fetching = Fetching(opened(folder, pool=1, global_batch_size=4), folder, tmp_path, reach=12, size=room)
    for path in sizes:
        fetching.store.info(path)
    with fetching.making(0):
        fetching.drain()
        assert 0 < maintenance.stat(fetching.cache).reserved <= 0.8 * room, "some is left for other processes"
    fetching.close()


def test_a_reader_that_finds_no_room_is_let_in(folder: Path, tmp_path: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.tar")}
    room = 2 * max(sizes.values())
    fetching = Fetching(opened(folder, pool=1, global_batch_size=4), folder, tmp_path, reach=12, size=room)
    with fetching.making(0):
        while maintenance.stat(fetching.cache).pinned < 2:
            time.sleep(0.01)
        for path in sizes:
            fetching.store.open(path).close()
    fetching.close()


@pytest.mark.parametrize("rank", range(5))
def test_a_batch_of_nothing_but_padding_needs_nothing(folder: Path, tmp_path: Path, rank: int) -> None:
    feed = opened(folder, passes=1, global_batch_size=45)  # of 48
    fetching = Fetching(feed, folder, tmp_path, reach=3)
    last = len(feed) - 1
    assert [each for each in range(5) if (feed.planned(last, each, 5).item >= 0).any()] == [0, 1, 3]
    with fetching.making(last, rank, 5):
        fetching.drain()
        groups = {line.group for line in feed.lines(last, rank, 5)}
        assert {key for key, _, _ in fetching.remote.gets} == groups and bool(groups) == (rank in (0, 1, 3))
    fetching.close()


def test_the_workers_of_a_rank_deal_the_fetching_of_residents_among_them(folder: Path, tmp_path: Path) -> None:
    """What a reader wants fetched while a group is resident is fetched by one worker, and pinned by all."""

    class Whole(TarReader):
        def resident(self, source: int, group: int) -> Any:
            return tuple(Extent(extent.unit, 0) for extent in super().resident(source, group))

    fetched: list[set[str]] = []
    for worker in range(2):
        feed = opened(folder, global_batch_size=2, pool=2)
        fetching = Fetching(feed, folder, tmp_path / str(worker), reach=0)
        manifest: Any = feed.catalog.parts[0].manifest
        reader = Whole(manifest, lambda fetching=fetching: fetching.store)  # type: ignore[misc]
        fetching.ahead._catalog = Catalog([Part("", manifest, reader, "raw")], feed.config.seed)
        steps = Steps(0).share(worker, 2)
        window = fetching.ahead.begin(fetching.lookup(steps), steps)
        with fetching.ahead.making(window, steps.start):
            fetching.drain()
            assert maintenance.stat(fetching.cache).pinned == 4
        sizes = {path.name: path.stat().st_size for path in folder.glob("*.tar")}
        fetched.append({key for key, _, end in fetching.remote.gets if end == sizes[key]})
        fetching.close()
    assert len(fetched[0]) >= 2 and len(fetched[1]) >= 2 and len(fetched[0] | fetched[1]) == 4


def test_a_child_forked_in_the_middle_of_a_step_fetches_for_itself(folder: Path, tmp_path: Path) -> None:
    feed = opened(folder)
    fetching = Fetching(feed, folder, tmp_path, reach=0)
    entered = threading.Event()
    leave = threading.Event()

    def make() -> None:
        with fetching.making(0), fetching.ahead._lock:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=make)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        fetching.remote.gets.clear()
        steps = Steps(40, 41)
        window = fetching.ahead.begin(fetching.lookup(steps), steps)
        with fetching.ahead.making(window, 40):
            fetching.drain()
        os._exit(0 if {key for key, _, _ in fetching.remote.gets} <= {line.group for line in feed.lines(40)} else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    fetching.close()
