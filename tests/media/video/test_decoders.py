"""Decoders that are kept: as many as there is room for, never two threads on one, none across a fork."""

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.compat.lerobot import VideoDecoderCache
from penstock.media.video.decoders import Decoders
from penstock.media.video.idle import MAX_DECODERS, MIN_DECODERS
from penstock.readers.mp4.clip import Piece
from penstock.readers.mp4.track import Coding
from penstock.runtime.shared import pickling_for_workers
from tests.media.video.clips import clips_of
from tests.robots import write_robot
from tests.videos import ENCODINGS, number_of


def codings(count: int) -> list[Coding]:
    """Return codings that differ."""
    return [Coding("avc1", b"", 16 * (number + 1), 16) for number in range(count)]


def use(decoders: Decoders, coding: Coding) -> Any:
    with decoders.lent() as lent:
        return lent.get(coding)


def test_nothing_is_made_before_it_is_needed_and_then_it_is_kept() -> None:
    decoders = VideoDecoderCache()
    assert decoders.size() == 0 and decoders.stats() == {"hits": 0, "misses": 0, "evictions": 0}
    [coding] = codings(1)
    first = use(decoders, coding)
    assert use(decoders, coding) is first and decoders.size() == 1
    assert decoders.stats() == {"hits": 1, "misses": 1, "evictions": 0}


@pytest.mark.parametrize(("asked", "kept"), [(1, MIN_DECODERS), (40, 40), (1_000, MAX_DECODERS)])
def test_it_is_sized_to_the_working_set_and_never_above_128(asked: int, kept: int) -> None:
    decoders = Decoders(asked)
    assert decoders.max_size == kept <= 128
    for coding in codings(kept + 3):
        use(decoders, coding)
    assert decoders.size() == kept
    assert decoders.stats() == {"hits": 0, "misses": kept + 3, "evictions": 3}


def test_the_one_that_was_not_used_for_longest_goes_first() -> None:
    decoders = Decoders(MIN_DECODERS)
    first, *others = codings(MIN_DECODERS + 1)
    kept = use(decoders, first)
    for coding in others[:-1]:
        use(decoders, coding)
    assert use(decoders, first) is kept
    use(decoders, others[-1])
    assert use(decoders, first) is kept, "the second was dropped instead"
    assert decoders.stats()["evictions"] == 1


def test_threads_at_the_same_time_have_decoders_of_their_own() -> None:
    decoders = Decoders()
    [coding] = codings(1)
    both = threading.Barrier(2)
    found = []

    def take() -> None:
        with decoders.lent() as lent:
            found.append(lent.get(coding))
            both.wait(30)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is not found[1]
    assert decoders.stats()["misses"] == 2 and decoders.size() == 2


def test_a_decoder_in_whose_use_something_failed_is_not_kept() -> None:
    decoders = Decoders()
    [coding] = codings(1)
    with pytest.raises(RuntimeError), decoders.lent() as lent:
        lent.get(coding)
        raise RuntimeError
    assert decoders.size() == 0


def test_no_decoder_crosses_a_fork_and_counts_are_of_both_processes(tmp_path: Path) -> None:
    [clip], ranges = clips_of(tmp_path, [4], ENCODINGS["h264"])
    decoders = Decoders()
    before = use(decoders, clip.coding)
    child = os.fork()
    if not child:  # leaves at once, whatever happens: it must not run the rest of the tests
        code = 1
        try:
            empty = decoders.size() == 0
            own = use(decoders, clip.coding)
            packets = clip.read(ranges, Piece(0, 1))
            numbers = [number_of(frame.rgb()) for _, frame in own.frames(packets, 0)]
            code = 0 if empty and own is not before and numbers == [0, 1] else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert decoders.size() == 1 and use(decoders, clip.coding) is before
    assert decoders.stats() == {"hits": 1, "misses": 2, "evictions": 0}


def test_a_copy_in_another_process_starts_empty_and_counts_with_the_original() -> None:
    decoders = Decoders(50)
    [coding] = codings(1)
    use(decoders, coding)
    with pickling_for_workers():
        copy = pickle.loads(pickle.dumps(decoders))
    assert copy.size() == 0 and copy.max_size == 50
    use(copy, coding)
    assert decoders.stats()["misses"] == 2


@pytest.mark.parametrize("how", [{"threads": 2}, {"workers": 2}], ids=str)
def test_stats_count_all_threads_and_workers_of_a_run(tmp_path: Path, how: dict[str, int]) -> None:
    write_robot(tmp_path, [10, 10], ["top"])
    feed = penstock.robot(store=str(tmp_path), batch_size=5, pool=1)
    decoders = feed.recipes["robot"].decoders  # type: ignore[attr-defined]
    assert decoders.max_size == MIN_DECODERS, "the pool of one episode needs no more"
    with feed.loader(**how) as loader:
        for _, batch in zip(range(8), loader, strict=False):
            assert batch["top"].any()
    feed.close()
    stats = decoders.stats()
    assert stats["misses"] >= (2 if "workers" in how else 1) and stats["hits"] > stats["misses"]
    assert stats["evictions"] == 0
