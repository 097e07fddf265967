"""Helpers work side by side with their caller, stop at an error, and leave nothing running behind it."""

import threading

import pytest

from penstock.store.cache.fetchpool import FetchPool


def test_every_job_is_done_once_and_any_true_counts() -> None:
    pool, done = FetchPool(4), []

    def work(job: int) -> bool:
        done.append(job)
        return job == 17

    assert pool.run(work, range(40)) is True
    assert sorted(done) == list(range(40))
    assert pool.run(lambda job: False, range(5)) is False
    assert pool.run(lambda job: True, []) is False
    pool.close()


def test_jobs_run_side_by_side() -> None:
    pool, together = FetchPool(3), threading.Barrier(3)
    pool.run(lambda job: bool(together.wait(timeout=60)), range(3))
    pool.close()


def test_an_error_is_raised_after_all_begun_jobs_are_over() -> None:
    pool, begun, ended = FetchPool(4), [], []

    def work(job: int) -> bool:
        begun.append(job)
        if job == 2:
            raise KeyError("job 2")
        ended.append(job)
        return False

    with pytest.raises(KeyError, match="job 2"):
        pool.run(work, range(1000))
    assert sorted(begun) == sorted([2, *ended])
    assert len(begun) < 1000
    pool.close()


def test_a_caller_is_not_held_up_by_another_callers_long_list() -> None:
    pool, release = FetchPool(2), threading.Event()
    blocked = threading.Thread(target=pool.run, args=(lambda job: release.wait(), range(4)))
    blocked.start()
    assert pool.run(lambda job: True, range(3)) is True
    release.set()
    blocked.join()
    pool.close()
