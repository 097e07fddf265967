"""One torch thread for the caller, whatever the process uses: loader threads must not each start a thread pool."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

from penstock.runtime.forking import reset_in_children


class _Count:
    """Number of threads inside ``one_torch_thread``, and torch's setting before the first entered."""

    usual = 1

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """In a forked child no thread is inside."""
        self.lock = Lock()
        self.inside = 0


_count = _Count()


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Use one torch thread within the block.

    Torch keeps the number of threads per calling thread, but setting it also sets the default for new threads. The
    usual number is therefore saved when the first thread enters, and restored by every thread that leaves.
    """
    with _count.lock:
        # The first call of a thread copies the default. It must come before the setting below, or it would undo it.
        now = torch.get_num_threads()
        if _count.inside == 0:
            _count.usual = now
        _count.inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _count.lock:
            torch.set_num_threads(_count.usual)
            _count.inside -= 1
