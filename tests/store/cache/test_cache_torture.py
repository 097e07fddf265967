"""Many processes, a small cache, faults and ``kill -9``, over a real S3 server. Judged from outside: by the kernel's
record of what entered and left the cache, and by the proxy's log of what was asked for.

``PENSTOCK_TORTURE=full`` runs the same at full size: 8 processes × 200 objects of 1–64 MB, 100 killings.
"""

import os
import random
import signal
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from penstock.store.cache import maintenance
from penstock.store.cache.account import CONTROL
from penstock.store.cache.derived import piece_path
from penstock.store.cache.paths import object_path
from tests.conftest import S3Prefix
from tests.servers.faultproxy import FaultProxy, Rule
from tests.store.cache.torture import (
    FRESH,
    Bench,
    Thing,
    check,
    downloads,
    read_for_ever,
    read_once_in_some_order,
    read_whole,
)
from tests.store.cache.watch import Watch, most_held, stays

FULL = os.environ.get("PENSTOCK_TORTURE") == "full"


@dataclass(frozen=True)
class Scale:
    processes: int
    things: int
    smallest: int
    largest: int
    part_bytes: int
    killings: int


SCALE = Scale(8, 200, 1 << 20, 64 << 20, 1 << 20, 100) if FULL else Scale(8, 80, 20_000, 600_000, 1 << 16, 12)
PATIENCE = 3600 if FULL else 120
ONE_IN_TEN = (
    Rule("status", probability=0.04, status=503),
    Rule("reset", probability=0.04),
    Rule("cut", probability=0.02, after=10_000),
)
pytestmark = pytest.mark.timeout(2 * PATIENCE)


def things_in(s3: S3Prefix, count: int, smallest: int, largest: int) -> list[Thing]:
    rng = random.Random(0)
    things = [Thing(number, rng.randint(smallest, largest)) for number in range(count)]
    for thing in things:
        s3.put(thing.key, bytes(thing.bytes(0, thing.size)))
    return things


def bench_of(s3: S3Prefix, proxy: FaultProxy, folder: Path, max_bytes: int) -> Bench:
    bench = Bench(s3.url, s3.through(proxy), folder, max_bytes, SCALE.part_bytes)
    bench.store().close()  # a cache begins in an empty folder, which it no longer is once it is watched
    return bench


def objects_folder(bench: Bench) -> Path:
    return (bench.folder / object_path(bench.url, "any", "1")).parent


def sizes_of(things: list[Thing]) -> dict[str, int]:
    """The sizes of objects, and of the two pieces that are made from each."""
    sizes = {thing.key: thing.size for thing in things}
    sizes |= {piece_path(thing.key, 0): thing.size // 2 for thing in things}
    return sizes | {piece_path(thing.key, 1): thing.size - thing.size // 2 for thing in things}


def finish(processes: list[ForkServerProcess]) -> None:
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode is not None, "deadlock: a reader does not finish"
    assert [process.exitcode for process in processes] == [0] * len(processes)


@pytest.mark.long
@pytest.mark.parametrize("rules", [(), ONE_IN_TEN], ids=["calm", "one request in ten fails"])
def test_a_storm_of_readers_on_a_cache_one_third_of_the_data(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    things = things_in(s3, SCALE.things, SCALE.smallest, SCALE.largest)
    bench = bench_of(s3, proxy, tmp_path / "cache", sum(thing.size for thing in things) // 3)
    watch = Watch(objects_folder(bench))
    proxy.rules(*rules)
    begin = time.monotonic()
    processes = [
        FRESH.Process(daemon=True, target=read_once_in_some_order, args=(bench, things, seed))
        for seed in range(SCALE.processes)
    ]
    for process in processes:
        process.start()
    finish(processes)  # each has compared every byte it read
    seconds = time.monotonic() - begin
    history, log = watch.history(), proxy.log("GET")
    entered = stays(history)
    fetched = downloads(log, s3.prefix, bench.part_bytes, things)
    most = most_held(history, sizes_of(things))
    assert most <= bench.max_bytes
    assert most > bench.max_bytes * 0.6, "the bound was put to the test"
    assert sum(entered.values()) > len(things), "things were evicted and came back"
    twice = {part: times for part, times in fetched.items() if times > entered[part[:2]]}
    assert not twice, "a part was downloaded more often than its object entered the cache"
    if rules:
        assert sum(bool(request.fault) for request in log) > len(log) / 20
    after = maintenance.stat(bench.store().cache)
    assert after.pinned == 0 and after.reserved <= bench.max_bytes
    print(
        f"\n{SCALE.processes} processes x {SCALE.things} objects, {sum(t.size for t in things):,} bytes, "
        f"bound {bench.max_bytes:,}, most held {most:,}; {len(log):,} GETs ({sum(bool(r.fault) for r in log):,} with "
        f"a fault), {sum(entered.values()):,} entries, no part twice a stay; {seconds:.0f} s; {after.counts}"
    )


def test_many_readers_of_a_cold_object_download_each_part_once(s3: S3Prefix, proxy: FaultProxy, tmp_path: Path) -> None:
    thing = Thing(0, 40 * SCALE.part_bytes + 17)
    s3.put(thing.key, bytes(thing.bytes(0, thing.size)))
    bench = bench_of(s3, proxy, tmp_path / "cache", thing.size)
    readers = [FRESH.Process(daemon=True, target=read_whole, args=(bench, thing)) for _ in range(SCALE.processes)]
    for reader in readers:
        reader.start()
    finish(readers)
    fetched = downloads(proxy.log("GET"), s3.prefix, bench.part_bytes, [thing])
    assert fetched == {(thing.key, (0, 0), part): 1 for part in range(41)}


def test_kill_9_at_random_moments_and_in_mid_download_while_others_wait(
    s3: S3Prefix, proxy: FaultProxy, tmp_path: Path
) -> None:
    rng = random.Random(1)
    things = things_in(s3, 20, 50_000, 1_500_000)
    victims = [Thing(1_000 + number, 5 * SCALE.part_bytes) for number in range(SCALE.killings // 2)]
    for thing in victims:
        s3.put(thing.key, bytes(thing.bytes(0, thing.size)))
    bench = bench_of(s3, proxy, tmp_path / "cache", 14_000_000 + 5 * SCALE.part_bytes)
    watch = Watch(objects_folder(bench))
    crowd = [start_reader(bench, things, seed) for seed in range(4)]
    waiting = 0
    for number in range(SCALE.killings):
        if number % 2:
            waiting += kill_in_mid_download(bench, victims[number // 2], proxy)
        else:
            time.sleep(rng.random() * 0.3)
            place = rng.randrange(len(crowd))
            kill(crowd[place])
            crowd[place] = start_reader(bench, things, 10 + number)
    for reader in crowd:
        kill(reader)
    assert waiting == 2 * len(victims)

    assert most_held(watch.history(), sizes_of([*things, *victims])) <= bench.max_bytes
    proxy.rules()
    store = bench.store()  # the next run
    left = maintenance.stat(store.cache)
    assert left.pinned == 0 and left.reserved <= bench.max_bytes
    for thing in [*things, *victims]:
        check(store, thing, 0, thing.size)
    assert len(list((bench.folder / CONTROL).rglob("*"))) < 10, "nothing piles up"
    print(f"\n{SCALE.killings} killings, {len(victims)} of them in mid-download; {waiting} waiters all finished")


def start_reader(bench: Bench, things: list[Thing], seed: int) -> ForkServerProcess:
    reader = FRESH.Process(daemon=True, target=read_for_ever, args=(bench, things, seed))
    reader.start()
    return reader


def kill(reader: ForkServerProcess) -> None:
    assert reader.exitcode is None, "it met an error: a torn read, or a cache that a killed process left behind"
    reader.kill()
    reader.join()
    assert reader.exitcode == -signal.SIGKILL


def kill_in_mid_download(bench: Bench, thing: Thing, proxy: FaultProxy) -> int:
    """Kill who downloads while two others wait for it; these must finish, with right bytes. How many waited."""
    proxy.clear()
    proxy.rules(Rule("delay", key=thing.key, seconds=60, times=1))
    fetcher = FRESH.Process(daemon=True, target=read_whole, args=(bench, thing))
    fetcher.start()
    until(lambda: any(request.fault for request in proxy.log("GET")), "nobody began the download")
    assert locked_parts(bench, thing), "who downloads holds the part's lock"
    others = [FRESH.Process(daemon=True, target=read_whole, args=(bench, thing)) for _ in range(2)]
    for other in others:
        other.start()
    until(lambda: pinners(bench, thing) == 3, "the others do not wait")
    kill(fetcher)
    finish(others)
    delayed = [request.fault for request in proxy.log("GET") if request.key.endswith(thing.key)]
    assert delayed.count("delay") == 1 and len(delayed) > 1, "who died was in mid-download, and another asked again"
    return len(others)


def until(is_so: object, complaint: str) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < end, complaint
        time.sleep(0.005)


def locks_of(bench: Bench, thing: Thing) -> list[list[str]]:
    """The kernel's own list of locks on the thing's file, one list of words each."""
    inodes = {str(path.stat().st_ino) for path in objects_folder(bench).glob(f"{thing.key}~*.data")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [words for words in lines if words[-3].rpartition(":")[2] in inodes]


def locked_parts(bench: Bench, thing: Thing) -> int:
    return sum("WRITE" in words and "->" not in words for words in locks_of(bench, thing))


def pinners(bench: Bench, thing: Thing) -> int:
    return sum("READ" in words for words in locks_of(bench, thing))
