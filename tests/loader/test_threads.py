"""Batches made ahead by threads: in order, as far ahead as asked and no further."""

import threading
from itertools import count, islice

import pytest

from penstock.loader.threads import Threads


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_batches_come_in_the_order_of_their_steps_however_long_each_takes(threads: int) -> None:
    first = threading.Event()

    def make(step: int) -> int:
        if threads > 1:  # the first batch is made last
            assert first.wait(30) if step == 0 else True
            if step == threads - 1:
                first.set()
        return step * 10

    engine = Threads(make, range(50), threads, 8)
    assert list(engine) == [step * 10 for step in range(50)]
    engine.close()


def test_no_more_is_made_than_was_asked_to_be_ahead() -> None:
    made: list[int] = []
    engine = Threads(made.append, count(), 2, 5)
    batches = iter(engine)
    for _ in range(3):
        next(batches)
    engine.close()
    assert sorted(made) == list(range(len(made))) and 3 <= len(made) <= 7


def test_without_threads_nothing_is_made_ahead() -> None:
    made: list[int] = []
    list(islice(Threads(made.append, count(), 0, 8), 3))
    assert made == [0, 1, 2]


def test_an_exception_comes_at_its_own_step_and_threads_end() -> None:
    def make(step: int) -> float:
        return 1 / (3 - step)

    engine = Threads(make, range(10), 4, 8)
    batches = iter(engine)
    assert len(list(islice(batches, 3))) == 3
    with pytest.raises(ZeroDivisionError):
        next(batches)
    engine.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock_")]
