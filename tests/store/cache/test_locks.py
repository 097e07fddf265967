"""Locks are freed by death and are not inherited; threads exclude each other as processes do."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.store.cache.locks import LockedFile

HOLDER = """
import os, sys, time
from penstock.store.cache.locks import LockedFile
held = LockedFile(sys.argv[1], os.O_RDWR)
held.lock(7)
print("locked", flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


def opened(path: Path) -> LockedFile:
    return LockedFile(path, os.O_RDWR)


def test_two_descriptors_of_one_process_exclude_each_other(path: Path) -> None:
    with opened(path) as one, opened(path) as two:
        assert one.lock(5)
        assert not two.lock(5, wait=False)
        assert two.lock(6, wait=False)
        one.unlock(5)
        assert two.lock(5, wait=False)


def test_readers_share_and_a_writer_waits_for_the_last(path: Path) -> None:
    with opened(path) as one, opened(path) as two, opened(path) as writer:
        assert one.lock(0, shared=True) and two.lock(0, shared=True)
        one.unlock(0)
        assert not writer.lock(0, wait=False)
        two.unlock(0)
        assert writer.lock(0, wait=False)


def test_a_lock_dies_with_its_process_and_who_waits_goes_on(path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
    with opened(path) as mine:
        assert not mine.lock(7, wait=False)
        waiter = threading.Thread(target=mine.lock, args=(7,))
        waiter.start()
        holder.send_signal(signal.SIGKILL)
        waiter.join(timeout=60)
        assert not waiter.is_alive()
    holder.communicate()


def test_a_forked_child_neither_keeps_nor_breaks_its_parents_locks(path: Path) -> None:
    ours, theirs = os.pipe()
    with opened(path) as held, opened(path) as other:
        held.lock(3)
        child = os.fork()
        if child == 0:
            os.close(theirs)
            os._exit(0 if held.fd == -1 and os.read(ours, 1) == b"" else 1)
        assert not other.lock(3, wait=False), "the child's close must not free it"
        held.close()
        assert other.lock(3, wait=False), "nor may the child, still alive, keep it"
        os.close(theirs)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ours)


def test_a_child_that_outlives_its_killed_parent_does_not_keep_its_locks(path: Path) -> None:
    script = """
import os, signal, sys, time
from penstock.store.cache.locks import LockedFile
held = LockedFile(sys.argv[1], os.O_RDWR)
held.lock(7)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    orphan = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    try:
        with opened(path) as mine:
            assert mine.lock(7, wait=False)
    finally:
        os.kill(orphan, signal.SIGKILL)
        parent.stdout.close()


def test_a_descriptor_that_is_forgotten_is_closed(path: Path) -> None:
    held = opened(path)
    held.lock(1)
    del held
    with opened(path) as other:
        assert other.lock(1, wait=False)
