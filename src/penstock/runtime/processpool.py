"""A process pool that ends with its owner, however that ends, even in the middle of a task."""

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>


@contextmanager
def process_pool(
    workers: int, initializer: Callable[..., None] | None = None, arguments: tuple[object, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Start a process pool for the block.

    Processes are spawned, so that they inherit no thread, client or lock. At the end of the block all tasks
    are waited for; if it ends with an exception, none is, and processes end in the middle of theirs. Processes also end
    with the thread that submitted tasks first: it must live as long as the block.

    Args:
        workers: Number of processes.
        initializer: Function called in each process before its first task.
        arguments: Arguments of the initializer.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(), initializer, arguments))
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        for process in list((pool._processes or {}).values()):  # until Python 3.14 has terminate_workers
            process.kill()  # by the kernel: a thread in there may have to wait long for the GIL
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_owner(owner: int) -> None:
    """Let this process end with the thread that started it, and leave Ctrl-C to its owner.

    Args:
        owner: Process that started this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner handles Ctrl-C
    # The kernel ends this process with the thread that started it: a task may hold the GIL for long.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:  # it was dead before
        os._exit(1)


def _begin(owner: int, initializer: Callable[..., None] | None, arguments: tuple[object, ...]) -> None:
    end_with_owner(owner)
    if initializer is not None:
        initializer(*arguments)
