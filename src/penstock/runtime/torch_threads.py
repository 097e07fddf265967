"""One torch thread for the caller, whatever the process uses: loader threads must not each start a team."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_inside = 0
_usual = 1


def _forget() -> None:
    """In a forked child, where whoever was inside is not."""
    global _lock, _inside
    _lock, _inside = Lock(), 0


os.register_at_fork(after_in_child=_forget)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch counts threads per calling thread, but a setting is also the default for threads yet to come.

    So the usual number is noted while nobody is inside, and everyone who leaves puts it back.
    """
    global _inside, _usual
    with _lock:
        # A thread that is asked for the first time takes the default over: later that would undo what is set here.
        now = torch.get_num_threads()
        if _inside == 0:
            _usual = now
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            torch.set_num_threads(_usual)
            _inside -= 1
