"""A reader that finds no room is heard in every process of the node; nobody else is kept awake."""

import gc
import os
import threading
import time
from pathlib import Path

from penstock.store.cache.room import Room


class Holder:
    def __init__(self) -> None:
        self.let = threading.Event()

    def let_go(self) -> None:
        self.let.set()


def looking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "penstock-room"]


def test_this_process_lets_go_at_once_and_another_soon(tmp_path: Path) -> None:
    mine = Holder()
    others = Holder()
    here = Room(tmp_path / "wanted")
    there = Room(tmp_path / "wanted")  # as another process has it
    here.heed(mine.let_go)
    there.heed(others.let_go)
    here.ask()
    assert mine.let.is_set() and others.let.wait(30)


def test_a_child_hears_for_itself(tmp_path: Path) -> None:
    mine = Holder()
    room = Room(tmp_path / "wanted")
    room.heed(mine.let_go)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        own = Holder()
        room.heed(own.let_go)
        os.write(tell, b"!")
        os._exit(0 if own.let.wait(30) and not mine.let.is_set() else 1)
    os.read(ready, 1)
    room.ask()
    assert mine.let.is_set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_thread_looks_where_nobody_heeds(tmp_path: Path) -> None:
    room = Room(tmp_path / "wanted")
    before = set(looking())  # of other tests in this process
    first = Holder()
    unheed = room.heed(first.let_go)
    second = Holder()
    room.heed(second.let_go)
    assert len(set(looking()) - before) == 1
    unheed()
    del second  # nobody need say so
    gc.collect()
    until = time.monotonic() + 30
    while set(looking()) - before and time.monotonic() < until:
        time.sleep(0.01)
    assert not set(looking()) - before
    room.ask()
    assert not first.let.is_set()
    third = Holder()
    room.heed(third.let_go)
    room.ask()
    assert third.let.is_set()
