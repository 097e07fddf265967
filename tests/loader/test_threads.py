"""Batches made ahead by threads: in order, as far ahead as asked and no further."""

import gc
import threading
import weakref
from itertools import islice

import pytest

from penstock.feed.steps import Steps
from penstock.loader.threads import Threads
from tests.loader.feeds import walking


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_batches_come_in_the_order_of_their_steps_however_long_each_takes(threads: int) -> None:
    first = threading.Event()

    def make(step: int) -> int:
        if threads > 1:  # the first batch is made last
            assert first.wait(30) if step == 0 else True
            if step == threads - 1:
                first.set()
        return step * 10

    engine = Threads(walking(make), Steps(0, 50), threads, 8)
    assert list(engine) == [step * 10 for step in range(50)]
    engine.close()


def test_no_more_is_made_than_was_asked_to_be_ahead() -> None:
    made: list[int] = []
    engine = Threads(walking(made.append), Steps(0), 2, 5)
    batches = iter(engine)
    for _ in range(3):
        next(batches)
    engine.close()
    assert sorted(made) == list(range(len(made))) and 3 <= len(made) <= 7


def test_without_threads_nothing_is_made_ahead() -> None:
    made: list[int] = []
    list(islice(Threads(walking(made.append), Steps(0), 0, 8), 3))
    assert made == [0, 1, 2]


def test_an_exception_comes_at_its_own_step_and_threads_end() -> None:
    def make(step: int) -> float:
        return 1 / (3 - step)

    engine = Threads(walking(make), Steps(0, 10), 4, 8)
    batches = iter(engine)
    assert len(list(islice(batches, 3))) == 3
    with pytest.raises(ZeroDivisionError):
        next(batches)
    engine.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock_")]


def test_who_waits_for_a_batch_while_another_thread_closes_is_told() -> None:
    begun, go = threading.Event(), threading.Event()

    def make(step: int) -> int:
        begun.set()
        go.wait(30)
        return step

    engine = Threads(walking(make), Steps(0), 1, 4)
    told: list[object] = []

    def walk() -> None:
        try:
            told.extend(engine)
        except RuntimeError as error:
            told.append(str(error))

    walker = threading.Thread(target=walk)
    walker.start()
    assert begun.wait(30)
    closer = threading.Thread(target=engine.close)
    closer.start()
    go.set()
    for thread in (walker, closer):
        thread.join(30)
        assert not thread.is_alive()
    assert told[-1] == "the loader was closed while waiting for a batch"


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_keeps_nothing_alive_but_itself(threads: int) -> None:
    class Held:
        pass

    def make(step: int) -> int:
        held = Held()
        alive.append(weakref.ref(held))
        raise ValueError(step)

    alive = list[weakref.ref[Held]]()
    engine = Threads(walking(make), Steps(0, 1), threads, 1)
    gc.disable()
    try:
        with pytest.raises(ValueError, match="0") as raised:
            next(iter(engine))
        engine.close()
        assert alive[0]() is not None
        del raised
        assert alive[0]() is None
    finally:
        gc.enable()
