"""Forks of processes that have used obstore. Each case runs in a process of its own, which a wrong one would hang."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

START = """
import os, pickle, signal, sys, threading
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.opening import open_remote

remote = open_remote({url!r}, {options!r})
etag = remote.head("x").etag

def read():
    return bytes(remote.get_range("x", 0, 5, etag))

def in_child(work):
    "Whether the work was done in a forked child, within a time that only a hang exceeds."
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def right():
    assert read() == b"bytes"
"""


def run(s3, body: str) -> None:
    s3.put("x", b"bytes of an object")
    code = START.format(url=s3.url, options=s3.options) + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_reads_and_its_parent_goes_on(s3) -> None:
    run(s3, "right(); in_child(right); right(); in_child(right); right()")


def test_children_read_while_the_parents_threads_are_reading(s3) -> None:
    run(
        s3,
        """
        over = threading.Event()
        def keep_reading():
            while not over.is_set():
                right()
        threads = [threading.Thread(target=keep_reading) for _ in range(4)]
        for thread in threads: thread.start()
        for _ in range(5): in_child(right)
        over.set()
        for thread in threads: thread.join()
        right()
        """,
    )


def test_a_childs_child_and_threads_of_a_child_read(s3) -> None:
    run(
        s3,
        """
        def many():
            threads = [threading.Thread(target=right) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            right()
            in_child(right)
        right()
        in_child(many)
        in_child(lambda: in_child(many))
        right()
        """,
    )


def test_a_child_may_drop_what_it_inherited(s3) -> None:
    run(
        s3,
        """
        import gc
        def drop():
            global remote
            del remote
            gc.collect()
        in_child(drop)
        right()
        """,
    )


WORKERS = """
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.opening import open_remote

class Objects:
    def __init__(self):
        self.remote = open_remote({url!r}, {options!r})
        self.etag = self.remote.head("x").etag
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return bytes(self.remote.get_range("x", i, i + 1, self.etag))

if __name__ == "__main__":
    data = Objects()
    assert data[0] == b"b"
"""
TORCH_FORK = """
    from torch.utils.data import DataLoader
    loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
    assert b"".join(loader) == b"byte"
    assert data[0] == b"b"
"""
SPAWN = """
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert b"".join(pool.map(data.__getitem__, range(4))) == b"byte"
"""


@pytest.mark.parametrize("start", [TORCH_FORK, SPAWN], ids=["fork", "spawn"])
def test_workers_read_however_they_are_started(s3, start: str, tmp_path: Path) -> None:
    s3.put("x", b"bytes of an object")
    script = tmp_path / "script.py"
    script.write_text(WORKERS.format(url=s3.url, options=s3.options) + start)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
