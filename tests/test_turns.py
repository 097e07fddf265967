"""Quick work is done in turns, slow work side by side, and nobody waits for long."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from penstock.turns import _PAUSE, _QUICK, Turns

MANY = 10**6  # rows for which no turn of a test is slow


def test_quick_work_is_done_one_after_the_other() -> None:
    turns, inside, most = Turns(), list[int](), list[int]()

    def work(number: int) -> None:
        with turns.taken(MANY):
            inside.append(number)
            time.sleep(0.001)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(40)))
    assert most == [1] * 40


def test_after_a_slow_turn_work_is_done_side_by_side_until_it_is_tried_again() -> None:
    turns = Turns()
    with turns.taken(1):
        time.sleep(2 * _QUICK)
    both = threading.Barrier(2)

    def work(_: int) -> None:
        with turns.taken(1):
            both.wait(60)  # only if both are inside at once

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(_PAUSE)))
    while turns._pause:  # of two threads that count down at once, one may be lost
        with turns.taken(1):
            pass
    with turns.taken(MANY):
        assert turns.lock.locked()


def test_who_waits_too_long_goes_ahead() -> None:
    turns = Turns()
    with turns.taken(1), ThreadPoolExecutor(1) as pool:

        def work() -> bool:
            with turns.taken(1):
                return True

        assert pool.submit(work).result(60)


def test_a_turn_ends_with_an_error_too() -> None:
    turns = Turns()
    for _ in range(3):
        try:
            with turns.taken(MANY):
                raise LookupError
        except LookupError:
            pass
    assert not turns.lock.locked()
