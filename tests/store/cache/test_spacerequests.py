"""A reader that finds no room is heard in every process of the node; nobody else is kept awake."""

import gc
import os
import threading
import time
from pathlib import Path

from penstock.store.cache.spacerequests import SpaceRequests


class Holder:
    def __init__(self) -> None:
        self.let = threading.Event()

    def unpin(self) -> None:
        self.let.set()


def looking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-space"]


def test_this_process_lets_go_at_once_and_another_soon(tmp_path: Path) -> None:
    mine = Holder()
    others = Holder()
    here = SpaceRequests(tmp_path / "wanted")
    there = SpaceRequests(tmp_path / "wanted")  # as another process has it
    here.subscribe(mine.unpin)
    there.subscribe(others.unpin)
    here.request()
    assert mine.let.is_set() and others.let.wait(30)


def test_a_child_hears_for_itself(tmp_path: Path) -> None:
    mine = Holder()
    requests = SpaceRequests(tmp_path / "wanted")
    requests.subscribe(mine.unpin)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        own = Holder()
        requests.subscribe(own.unpin)
        os.write(tell, b"!")
        os._exit(0 if own.let.wait(30) and not mine.let.is_set() else 1)
    os.read(ready, 1)
    requests.request()
    assert mine.let.is_set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_thread_looks_where_nobody_subscribes(tmp_path: Path) -> None:
    requests = SpaceRequests(tmp_path / "wanted")
    before = set(looking())  # of other tests in this process
    first = Holder()
    unsubscribe = requests.subscribe(first.unpin)
    second = Holder()
    requests.subscribe(second.unpin)
    assert len(set(looking()) - before) == 1
    unsubscribe()
    del second  # nobody need say so
    gc.collect()
    until = time.monotonic() + 30
    while set(looking()) - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not set(looking()) - before
    requests.request()
    assert not first.let.is_set()
    third = Holder()
    requests.subscribe(third.unpin)
    requests.request()
    assert third.let.is_set()


def test_a_process_does_not_answer_its_own_request_a_second_time(tmp_path: Path) -> None:
    here = SpaceRequests(tmp_path / "wanted")
    there = SpaceRequests(tmp_path / "wanted")  # as another process has it
    here.request()
    assert not here.is_requested()
    time.sleep(0.02)  # a tick of the clock of files
    there.request()
    assert here.is_requested()
    assert not here.is_requested()
