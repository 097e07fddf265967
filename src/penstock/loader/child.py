"""A worker process: makes the batches it is asked for and leaves them in free slots. Ends with its parent."""

import gc
import pickle
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from penstock.loader.ring import FreeSlots, Slot
from penstock.media.lending import making_in


def main(pipe: int) -> None:
    """Serve requests that come through a descriptor: first how to begin, then step after step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's, which then closes the pipe
    connection = Connection(pipe)
    try:
        first, *rest = connection.recv()
        free, slots = FreeSlots(first), [Slot(fd) for fd in rest]
        opened, make = _attempt(pickle.loads, connection.recv_bytes())
        gc.freeze()  # what is here stays: a collection need not look through it again and again
        while True:
            step = connection.recv()
            made = _attempt(_make, make, step, free, slots) if opened else (opened, make)
            connection.send_bytes(pickle.dumps(made))  # as send() does it, in half of the time
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the trainer has closed the loader, or is gone


def _make(make: Callable[[int], Any], step: int, free: FreeSlots, slots: list[Slot]) -> tuple[int, bytes, int]:
    number = free.take()
    try:
        with making_in(slots[number]):
            batch = make(step)
        return number, *slots[number].write(batch)
    except BaseException:
        free.give_back(number)
        raise


def _attempt(call: Any, *arguments: Any) -> tuple[bool, Any]:
    """(True, the result) or (False, the exception as the trainer is to raise it)."""
    try:
        return True, call(*arguments)
    except Exception as error:
        error.add_note("in a worker process:\n" + traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return False, RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return False, error
