"""A file that worker processes share, forked or spawned, and counts that go through it."""

import multiprocessing
import os
import pickle

from penstock.runtime.counting import SharedCounters
from penstock.runtime.shared import SharedFile


def write(shared: SharedFile, content: bytes) -> None:
    with open(shared.path, "r+b") as file:
        file.write(content)


def read(shared: SharedFile) -> bytes:
    with open(shared.path, "rb") as file:
        return file.read()


def count(counting: SharedCounters) -> None:
    counting.add("a", 2)
    counting.add("b")


def test_a_worker_process_shares_the_file_and_the_counts() -> None:
    context = multiprocessing.get_context("fork")  # spawned workers are tested with the streams that use it
    shared = SharedFile(b"before")
    counting = SharedCounters("a", "b")
    counting.add("a")
    for run in (
        context.Process(target=write, args=(shared, b"after!")),
        context.Process(target=count, args=(counting,)),
    ):
        run.start()
        run.join()
        assert run.exitcode == 0
    assert read(shared) == b"after!"
    assert counting.totals() == {"a": 3, "b": 1}


def test_a_copy_is_a_file_of_its_own() -> None:
    shared = SharedFile(b"before")
    copy = pickle.loads(pickle.dumps(shared))
    write(shared, b"after!")
    assert read(copy) == b"before"


def test_nothing_is_left_when_it_is_gone() -> None:
    shared = SharedFile(b"")
    path = shared.path
    assert os.path.exists(path)
    del shared
    assert not os.path.exists(path)
