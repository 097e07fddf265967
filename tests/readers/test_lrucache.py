"""Results are made once for all threads that need them, and the least recently used go first."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.readers.lrucache import LruCache


def test_a_result_is_made_once_and_kept() -> None:
    cache: LruCache[str, list[int]] = LruCache(2)
    first = cache.get_or_make("a", lambda: [1])
    assert cache.get_or_make("a", lambda: [2]) is first and cache.get("a") is first
    assert cache.get("b") is None


def test_the_least_recently_used_goes_first() -> None:
    cache: LruCache[str, str] = LruCache(2)
    cache.put("a", "A")
    cache.put("b", "B")
    cache.get("a")
    cache.put("c", "C")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_of_two_results_the_first_is_kept() -> None:
    cache: LruCache[str, list[int]] = LruCache(2)
    first = cache.put("a", [1])
    assert cache.put("a", [2]) is first


def test_what_nobody_asked_for_displaces_nothing_and_goes_first() -> None:
    cache: LruCache[str, str] = LruCache(2)
    cache.put("a", "A")
    cache.put_if_room("b", "B")
    cache.put_if_room("c", "C")
    assert cache.get("c") is None
    cache.put("d", "D")
    assert [cache.get(key) for key in "abd"] == ["A", None, "D"]


def test_threads_that_need_the_same_result_wait_for_one_of_them_and_others_do_not_wait() -> None:
    cache: LruCache[str, object] = LruCache(4)
    made: list[str] = []
    may_end = threading.Event()
    begun = threading.Event()

    def slow() -> object:
        made.append("a")
        begun.set()
        assert may_end.wait(30)
        return object()

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(cache.get_or_make, "a", slow) for _ in range(3)]
        assert begun.wait(30)
        assert cache.get("a") is None, "looking does not wait"
        other = object()
        assert pool.submit(cache.get_or_make, "b", lambda: other).result(30) is other
        may_end.set()
        results = {id(each.result(30)) for each in waiting}
    assert made == ["a"] and len(results) == 1


def test_an_error_is_raised_and_not_kept() -> None:
    cache: LruCache[str, str] = LruCache(2)

    def fail() -> str:
        raise OSError("no answer")

    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            cache.get_or_make("a", fail)
    assert cache.get_or_make("a", lambda: "A") == "A"


def test_a_forked_child_starts_empty_also_while_a_thread_is_at_work() -> None:
    cache: LruCache[str, str] = LruCache(2)
    cache.put("b", "B")
    may_end = threading.Event()
    begun = threading.Event()

    def slow() -> str:
        begun.set()
        assert may_end.wait(30)
        return "A"

    thread = threading.Thread(target=cache.get_or_make, args=("a", slow))
    thread.start()
    assert begun.wait(30)
    if not (child := os.fork()):
        own = cache.get("b") is None and cache.get_or_make("a", lambda: "own") == "own"
        os._exit(0 if own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    may_end.set()
    thread.join()
    assert cache.get("a") == "A"
