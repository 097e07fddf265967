"""Results are made once for all threads that need them, and the least recently used go first."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.readers.kept import Kept


def test_a_result_is_made_once_and_kept() -> None:
    kept: Kept[str, list[int]] = Kept(2)
    first = kept.get_or_make("a", lambda: [1])
    assert kept.get_or_make("a", lambda: [2]) is first and kept.get("a") is first
    assert kept.get("b") is None


def test_the_least_recently_used_goes_first() -> None:
    kept: Kept[str, str] = Kept(2)
    kept.put("a", "A")
    kept.put("b", "B")
    kept.get("a")
    kept.put("c", "C")
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]


def test_of_two_results_the_first_is_kept() -> None:
    kept: Kept[str, list[int]] = Kept(2)
    first = kept.put("a", [1])
    assert kept.put("a", [2]) is first


def test_what_nobody_asked_for_displaces_nothing_and_goes_first() -> None:
    kept: Kept[str, str] = Kept(2)
    kept.put("a", "A")
    kept.put_if_room("b", "B")
    kept.put_if_room("c", "C")
    assert kept.get("c") is None
    kept.put("d", "D")
    assert [kept.get(key) for key in "abd"] == ["A", None, "D"]


def test_threads_that_need_the_same_result_wait_for_one_of_them_and_others_do_not_wait() -> None:
    kept: Kept[str, object] = Kept(4)
    made: list[str] = []
    may_end = threading.Event()
    begun = threading.Event()

    def slow() -> object:
        made.append("a")
        begun.set()
        assert may_end.wait(30)
        return object()

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(kept.get_or_make, "a", slow) for _ in range(3)]
        assert begun.wait(30)
        assert kept.get("a") is None, "looking does not wait"
        other = object()
        assert pool.submit(kept.get_or_make, "b", lambda: other).result(30) is other
        may_end.set()
        results = {id(each.result(30)) for each in waiting}
    assert made == ["a"] and len(results) == 1


def test_an_error_is_raised_and_not_kept() -> None:
    kept: Kept[str, str] = Kept(2)

    def fail() -> str:
        raise OSError("no answer")

    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            kept.get_or_make("a", fail)
    assert kept.get_or_make("a", lambda: "A") == "A"


def test_a_forked_child_starts_empty_also_while_a_thread_is_at_work() -> None:
    kept: Kept[str, str] = Kept(2)
    kept.put("b", "B")
    may_end = threading.Event()
    begun = threading.Event()

    def slow() -> str:
        begun.set()
        assert may_end.wait(30)
        return "A"

    thread = threading.Thread(target=kept.get_or_make, args=("a", slow))
    thread.start()
    assert begun.wait(30)
    if not (child := os.fork()):
        own = kept.get("b") is None and kept.get_or_make("a", lambda: "own") == "own"
        os._exit(0 if own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    may_end.set()
    thread.join()
    assert kept.get("a") == "A"
