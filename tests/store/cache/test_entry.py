"""An object arrives part by part: each part once, whoever asks; a pinned one stays; marks never lie."""

import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.store.cache.account import CONTROL
from penstock.store.cache.admission import Admission
from penstock.store.cache.entry import PIN, CacheEntry, evict, pin
from penstock.store.cache.locks import LockedFile
from penstock.store.cache.paths import have_path
from penstock.store.cache.policy import REQUEST_BYTES

PART = 100


class Source:
    """An object's bytes, with a note of every range that was asked for."""

    def __init__(self, size: int) -> None:
        self.data = os.urandom(size)
        self.asked: list[tuple[int, int]] = []

    def get(self, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.data[start:end]


def entered(folder: Path, size: int, part_bytes: int = PART) -> CacheEntry:
    (folder / CONTROL).mkdir(exist_ok=True)
    door = Admission(folder, 10**9, part_bytes, lambda size: None)
    return door.enter(folder / "s3" / "object~1.data", size, patience=0)


def test_a_range_fetches_its_parts_and_no_others(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 1050), Source(1050)
    assert entry.missing(250, 450) == [(2, 5)]
    entry.fetch((2, 5), source.get)
    assert source.asked == [(200, 500)]
    assert os.pread(entry.data.fd, 300, 200) == source.data[200:500]
    assert entry.missing(200, 500) == [] and entry.missing(1049, 1050) == [(10, 11)]
    assert not entry.complete and entry.present == 300


def test_the_last_part_is_as_short_as_the_object(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 1050), Source(1050)
    for run in entry.missing(0, 1050):
        entry.fetch(run, source.get)
    assert entry.complete and entry.present == 1050
    assert entry.path.read_bytes() == source.data


def test_an_empty_object_is_complete_at_once(tmp_path: Path) -> None:
    entry = entered(tmp_path, 0)
    assert entry.complete and entry.missing(0, 0) == []


@given(
    have=st.sets(st.integers(0, 40)),
    span=st.tuples(st.integers(0, 4100), st.integers(0, 4100)),
    part_bytes=st.sampled_from([PART, REQUEST_BYTES // 3, REQUEST_BYTES]),
)
def test_missing_runs_are_exactly_the_gaps_and_no_request_is_too_long(
    tmp_path_factory: pytest.TempPathFactory, have: set[int], span: tuple[int, int], part_bytes: int
) -> None:
    entry = entered(tmp_path_factory.mktemp("runs"), 41 * part_bytes - 7, part_bytes)
    with open(have_path(str(entry.path)), "r+b") as marks:
        for part in have:
            marks.seek(part)
            marks.write(b"\1")
    entry.look()
    start, end = (min(at * part_bytes // PART, entry.size) for at in sorted(span))
    runs = entry.missing(start, end)
    wanted = set(range(start // part_bytes, -(-end // part_bytes))) if start < end else set()
    assert [part for run in runs for part in range(*run)] == sorted(wanted - have)
    assert all((last - first) * part_bytes <= REQUEST_BYTES for first, last in runs)
    entry.close()


def test_many_threads_that_want_the_same_parts_download_each_once(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 2000), Source(2000)
    start = threading.Barrier(8)

    def read_all() -> None:
        start.wait()
        for run in entry.missing(0, 2000):
            entry.fetch(run, source.get)
        assert os.pread(entry.data.fd, 2000, 0) == source.data

    threads = [threading.Thread(target=read_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(part for start, end in source.asked for part in range(start // PART, end // PART)) == list(range(20))


def test_who_waits_for_a_part_gets_it_from_who_fetches_it(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 500), Source(500)
    begun, go_on = threading.Event(), threading.Event()

    def slow(start: int, end: int) -> bytes:
        begun.set()
        go_on.wait()
        return source.get(start, end)

    first = threading.Thread(target=entry.fetch, args=((0, 3), slow))
    first.start()
    begun.wait()
    waited: list[bool] = []
    second = threading.Thread(target=lambda: waited.append(entry.fetch((0, 5), source.get)))
    second.start()
    while (300, 500) not in source.asked:  # what nobody is at, it fetches before it waits
        time.sleep(0.001)
    go_on.set()
    first.join()
    second.join()
    assert waited == [True] and sorted(source.asked) == [(0, 300), (300, 500)]


def test_parts_around_one_that_another_fetches_come_in_one_request_on_each_side(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 1000), Source(1000)
    begun, go = threading.Event(), threading.Event()

    def slow(start: int, end: int) -> bytes:
        begun.set()
        go.wait(30)
        return source.get(start, end)

    def get(start: int, end: int) -> bytes:
        if end == 1000:
            go.set()  # the other ends only after both sides were requested
        return source.get(start, end)

    other = threading.Thread(target=entry.fetch, args=((5, 6), slow))
    other.start()
    assert begun.wait(30)
    assert entry.fetch((0, 10), get)
    other.join()
    assert sorted(source.asked) == [(0, 500), (500, 600), (600, 1000)]


def test_a_fetch_that_fails_leaves_the_part_to_the_next(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 300), Source(300)

    def broken(start: int, end: int) -> bytes:
        raise ConnectionResetError("injected")

    with pytest.raises(ConnectionResetError, match="injected"):
        entry.fetch((0, 3), broken)
    assert entry.missing(0, 300) == [(0, 3)]
    entry.fetch((0, 3), source.get)
    assert entry.complete


def test_what_is_pinned_is_not_evicted_and_what_is_evicted_cannot_be_pinned(tmp_path: Path) -> None:
    entry = entered(tmp_path, 300)
    again = pin(entry.path, 300, PART)
    assert again is not None
    entry.close()
    assert not evict(str(again.path))
    again.close()
    assert evict(str(entry.path))
    assert pin(entry.path, 300, PART) is None
    assert not any(path.is_file() for path in (tmp_path / "s3").rglob("*"))


def test_who_pins_while_it_is_being_evicted_finds_it_gone(tmp_path: Path) -> None:
    path = entered(tmp_path, 300).path  # the entry itself is forgotten, and so unpinned
    found: list[CacheEntry | None] = []
    with LockedFile(path, os.O_RDWR) as evictor:
        assert evictor.lock(PIN, wait=False)
        late = threading.Thread(target=lambda: found.append(pin(path, 300, PART)))
        late.start()
        while "->" not in [line.split()[1] for line in Path("/proc/locks").read_text().splitlines()]:
            time.sleep(0.001)
        os.unlink(have_path(str(path)))
        os.unlink(path)
    late.join()
    assert found == [None]
    assert not list((tmp_path / "s3").iterdir()), "and leaves no marks behind"


def test_an_interrupted_download_goes_on_from_its_parts(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 1000), Source(1000)
    entry.fetch((0, 4), source.get)
    entry.close()
    again = entered(tmp_path, 1000)
    for run in again.missing(0, 1000):
        again.fetch(run, source.get)
    assert source.asked == [(0, 400), (400, 1000)]
    assert again.path.read_bytes() == source.data


def test_a_file_of_another_length_is_not_believed(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 300), Source(300)
    entry.fetch((0, 3), source.get)
    entry.close()
    os.truncate(entry.path, 200)
    again = entered(tmp_path, 300)
    assert again.missing(0, 300) == [(0, 3)], "its marks are gone with it"


def test_a_pinned_object_that_a_person_removes_stays_readable(tmp_path: Path) -> None:
    entry, source = entered(tmp_path, 300), Source(300)
    entry.fetch((0, 1), source.get)
    for path in (entry.path, Path(have_path(str(entry.path)))):
        path.unlink()
    other = entered(tmp_path, 300)
    assert other.missing(0, 300) == [(0, 3)]
    entry.fetch((1, 3), source.get)
    assert os.pread(entry.data.fd, 300, 0) == source.data


def test_what_was_checked_is_known_by_its_range_in_every_process_and_goes_with_the_bytes(tmp_path: Path) -> None:
    entry = entered(tmp_path, 1050)
    other = pin(entry.path, entry.size, entry.part_bytes)
    assert other is not None
    ranges = [(0, 100), (100, 150), (101, 150), (150, 700)]  # nearer to each other than the blocks of a tar
    for at, (start, end) in enumerate(ranges):
        assert not other.is_checked(start, end)
        (entry, other)[at % 2].note_checked(start, end)
        assert entry.is_checked(start, end) and other.is_checked(start, end)
    assert not entry.is_checked(0, 150)
    other.close()
    again = pin(entry.path, entry.size, entry.part_bytes)
    assert again is not None and all(again.is_checked(*each) for each in ranges) and not again.complete
    again.close()
    path = str(entry.path)
    entry.close()
    assert evict(path)
    assert not entered(tmp_path, 1050).is_checked(0, 100)
