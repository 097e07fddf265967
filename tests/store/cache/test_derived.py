"""What is made from objects is made once, whole or not at all, and again when it was evicted."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.store.blob import ByteRange
from penstock.store.cache import maintenance
from penstock.store.cache.account import CONTROL
from penstock.store.cache.admission import CacheInUse, CacheTooSmall
from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import BUILDING, NodeCache
from penstock.store.cache.derived import DerivedStore, Maker, Piece, piece_path
from penstock.store.cache.prefetch import Prefetcher
from penstock.store.extents import Extent, Unit
from penstock.store.local import LocalStore
from penstock.store.remote.remote import ObjectChanged

FORK = multiprocessing.get_context("fork")
PIECES = 3
PIECE_BYTES = 2_000


@dataclass(frozen=True)
class Repeat(Maker):
    """Makes pieces that repeat a byte of the input, and notes every making."""

    folder: Path
    notes: Path
    name: str = "repeat-1"
    pause: float = 0.0

    def make(self, path: str, within: ByteRange | None) -> Iterator[Piece]:
        with self.notes.open("a") as notes:
            notes.write(f"{path}\n")
        data = (self.folder / path).read_bytes()[slice(*within) if within else slice(None)]
        for number in range(PIECES):
            time.sleep(self.pause)
            yield [data[:1] * 500, data[number : number + 1] * (PIECE_BYTES - 500)]

    def expected_size(self, path: str, within: ByteRange | None, number: int) -> int:
        return PIECE_BYTES


@pytest.fixture
def maker(tmp_path: Path) -> Repeat:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("one", "two", "six"):
        (folder / name).write_bytes(name.encode())
    return Repeat(folder, tmp_path / "notes")


def store_of(tmp_path: Path, maker: Repeat, max_bytes: int = 20_000, patience: float = 0) -> DerivedStore:
    cache = NodeCache(tmp_path / "cache", max_bytes, part_bytes=1_000, patience=patience)
    return DerivedStore(LocalStore(maker.folder), maker, cache)


def content(blob: CachedBlob) -> bytes:
    buffer = bytearray(blob.size)
    blob.readinto(memoryview(buffer), 0)
    return bytes(buffer)


def expected(name: str, number: int) -> bytes:
    data = name.encode()
    return data[:1] * 500 + data[number : number + 1] * 1_500


def makings(maker: Repeat) -> list[str]:
    return maker.notes.read_text().splitlines() if maker.notes.exists() else []


class Unrelated:
    """Has the methods of a maker, but does not inherit from it."""

    name = "unrelated-1"
    make = Repeat.make
    expected_size = Repeat.expected_size


def test_a_maker_that_does_not_inherit_is_refused_by_name_when_the_store_is_opened(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 20_000)
    with pytest.raises(TypeError, match=r"the maker Unrelated does not inherit from penstock\.store\.Maker"):
        DerivedStore(LocalStore(tmp_path), Unrelated(), cache)  # type: ignore[arg-type]


def test_all_pieces_are_made_with_the_first_that_is_opened(tmp_path: Path, maker: Repeat) -> None:
    store = store_of(tmp_path, maker)
    assert store.open_if_here(piece_path("one", 1)) is None
    for number in (1, 0, 2):
        assert content(store.open(piece_path("one", number))) == expected("one", number)
    again = store_of(tmp_path, maker)
    assert content(again.open(piece_path("one", 2))) == expected("one", 2)
    assert makings(maker) == ["one"]
    held = maintenance.stat(store.cache)
    assert (held.reserved, held.objects, held.complete) == (6_000, 3, 3)
    assert not list((store.cache.root / CONTROL / BUILDING).iterdir())


def test_another_maker_another_version_and_another_range_give_other_entries(tmp_path: Path, maker: Repeat) -> None:
    assert content(store_of(tmp_path, maker).open(piece_path("one", 0))) == expected("one", 0)
    other = Repeat(maker.folder, maker.notes, name="repeat-2")
    store_of(tmp_path, other).open(piece_path("one", 0))
    assert content(store_of(tmp_path, maker).open(piece_path("one", 0), (1, 3)))[:1] == b"n"
    (maker.folder / "new").write_bytes(b"abc")
    (maker.folder / "new").rename(maker.folder / "one")
    assert content(store_of(tmp_path, maker).open(piece_path("one", 0))) == expected("abc", 0)
    assert len(makings(maker)) == 4


def test_pieces_of_an_input_that_is_replaced_meanwhile_are_not_kept_as_those_of_the_new_one(
    tmp_path: Path, maker: Repeat
) -> None:
    store = store_of(tmp_path, maker)
    store.version(piece_path("one", 0))
    (maker.folder / "new").write_bytes(b"abc")
    (maker.folder / "new").rename(maker.folder / "one")
    with pytest.raises(ObjectChanged, match=r"one: was replaced during the run"):
        store.open(piece_path("one", 0))
    assert maintenance.stat(store.cache).objects == 0
    assert content(store_of(tmp_path, maker).open(piece_path("one", 0))) == expected("abc", 0)


def test_many_processes_make_it_once(tmp_path: Path, maker: Repeat) -> None:
    slow = Repeat(maker.folder, maker.notes, pause=0.1)

    def open_all() -> None:
        store = store_of(tmp_path, slow, patience=60)
        for number in range(PIECES):
            assert content(store.open(piece_path("two", number))) == expected("two", number)

    children = [FORK.Process(target=open_all) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 6
    assert makings(maker) == ["two"]


def test_who_is_killed_in_the_middle_leaves_nothing_that_is_taken_for_complete(tmp_path: Path, maker: Repeat) -> None:
    slow = Repeat(maker.folder, maker.notes, pause=0.4)
    child = FORK.Process(target=lambda: store_of(tmp_path, slow).open(piece_path("six", 2)))
    child.start()
    first = store_of(tmp_path, maker).place(piece_path("six", 0), None)
    until = time.monotonic() + 60
    while not first.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    store = store_of(tmp_path, maker)
    assert store.open_if_here(piece_path("six", 2)) is None
    assert content(store.open(piece_path("six", 2))) == expected("six", 2)
    assert makings(maker) == ["six", "six"]
    assert not list((store.cache.root / CONTROL / BUILDING).iterdir())


def test_evicted_pieces_are_made_again_and_pinned_ones_stay(tmp_path: Path, maker: Repeat) -> None:
    store = store_of(tmp_path, maker, max_bytes=9_000)
    kept = store.open(piece_path("one", 0))
    store.open(piece_path("two", 0)).close()
    store.open(piece_path("six", 0)).close()
    assert content(kept) == expected("one", 0)
    assert content(store.open(piece_path("one", 1))) == expected("one", 1)
    assert maintenance.stat(store.cache).reserved <= 9_000


def test_without_room_nothing_is_made(tmp_path: Path, maker: Repeat) -> None:
    store = store_of(tmp_path, maker, max_bytes=6_500)
    kept = [store.open(piece_path("one", number)) for number in range(3)]
    with pytest.raises(CacheInUse, match="6,000 pinned bytes"):
        store.open(piece_path("two", 0))
    assert makings(maker) == ["one"]
    assert len(kept) == 3
    with pytest.raises(CacheTooSmall, match="at least 2,000"):
        store_of(tmp_path / "small", maker, max_bytes=1_500).open(piece_path("one", 0))


def test_the_prefetcher_makes_and_pins_pieces(tmp_path: Path, maker: Repeat) -> None:
    store = store_of(tmp_path, maker)
    ahead = Prefetcher(store.cache, concurrency=2)
    ahead.want([Extent(Unit(store, piece_path("one", 1)), 0), Extent(Unit(store, piece_path("two", 0)), 0, 0)])
    ahead.drain()
    assert sorted(makings(maker)) == ["one", "two"]
    assert maintenance.stat(store.cache).pinned == 2
    ahead.close()


def test_a_piece_that_was_evicted_before_a_forked_child_reads_it_is_made_there(tmp_path: Path, maker: Repeat) -> None:
    store = store_of(tmp_path, maker)
    blob = store.open(piece_path("one", 1))

    gone = FORK.Event()

    def read_on() -> None:
        assert gone.wait(60)
        assert content(blob) == expected("one", 1)

    child = FORK.Process(target=read_on)
    child.start()
    blob.close()
    assert maintenance.clear(store.cache) == (6_000, 0)
    gone.set()
    child.join(60)
    assert child.exitcode == 0
