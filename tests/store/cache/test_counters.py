"""Counts survive the process that made them, once, and their files do not pile up."""

import os
import signal
from pathlib import Path

from penstock.store.cache.counters import Counters, Counts, fold_dead_processes


def in_child(folder: Path, hits: int) -> None:
    """Count in a process that then dies by ``kill -9``."""
    child = os.fork()
    if child == 0:
        counters = Counters(folder)
        counters.add(hits=hits, bytes_fetched=10 * hits)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_counts_of_killed_processes_are_kept_and_their_files_folded(tmp_path: Path) -> None:
    for hits in (1, 2, 3):
        in_child(tmp_path, hits)
    assert len(list(tmp_path.glob("*.live"))) == 3
    mine = Counters(tmp_path)
    mine.add(misses=5)
    assert mine.node() == Counts(hits=6, bytes_fetched=60, misses=5)
    assert len(list(tmp_path.glob("*.live"))) == 1
    assert mine.node() == Counts(hits=6, bytes_fetched=60, misses=5)
    assert mine.mine() == Counts(misses=5)


def test_who_dies_between_folding_and_removing_does_not_count_twice(tmp_path: Path) -> None:
    in_child(tmp_path, 4)
    (left,) = tmp_path.glob("*.live")
    record = left.read_bytes()
    assert fold_dead_processes(tmp_path).hits == 4
    left.write_bytes(record)  # as if the folder had died before it could remove it
    assert fold_dead_processes(tmp_path).hits == 4
    assert not left.exists()
    in_child(tmp_path, 1)
    assert fold_dead_processes(tmp_path).hits == 5


def test_hits_reach_the_file_without_a_write_each(tmp_path: Path) -> None:
    counters = Counters(tmp_path)
    for _ in range(1000):
        counters.hits.append(10)
    assert fold_dead_processes(tmp_path) == Counts()
    assert counters.mine() == Counts(hits=1000, bytes_read=10_000)
    assert counters.node() == Counts(hits=1000, bytes_read=10_000)


def test_a_disk_that_fails_does_not_stop_the_counting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    counters = Counters(tmp_path / "file" / "below")
    counters.add(hits=1)
    assert counters.mine().hits == 1


def test_a_live_file_is_never_taken_for_a_dead_one(tmp_path: Path) -> None:
    first, second = Counters(tmp_path), Counters(tmp_path)
    first.add(hits=1)
    second.add(hits=2)
    assert first.node().hits == second.node().hits == 3
    first.add(hits=10)
    assert second.node().hits == 13
