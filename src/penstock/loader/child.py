"""A worker process: makes the batches it is asked for and leaves them in free slots. Ends with its parent.

It is asked by the number of a step, and answers with the number of a slot and where in it the batch lies.
"""

import gc
import os
import pickle
import signal
import struct
import traceback
from collections.abc import Callable
from socket import socket
from typing import Any

from penstock.loader.ring import FreeSlots, Slot, Where
from penstock.runtime.lending import making_in

ASKED = struct.Struct("q")  # step
ANSWER = struct.Struct("?qqq")  # whether it was made (else an exception lies there), slot, where in it


def main(asked: int, feed: int, free: int, *slots: int) -> None:
    """Serve what comes through the first of these descriptors; what makes a batch lies in the second, pickled."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's, which then closes the socket
    try:
        with socket(fileno=asked) as trainer:
            _serve(trainer, feed, FreeSlots(free), [Slot(fd) for fd in slots])
    except (BrokenPipeError, ConnectionResetError):
        pass  # the trainer is gone


def _serve(trainer: socket, feed: int, free: FreeSlots, slots: list[Slot]) -> None:
    opened, make = _attempt(lambda: pickle.loads(os.pread(feed, os.fstat(feed).st_size, 0)))
    gc.freeze()  # what is here stays: a collection need not look through it again and again
    while request := trainer.recv(ASKED.size):  # nothing: the trainer has closed the loader
        number = free.take()
        made, result = _attempt(_make, make, *ASKED.unpack(request), slots[number]) if opened else (opened, make)
        if not made:
            slots[number].clear()
        trainer.send(ANSWER.pack(made, number, *(result if made else slots[number].write(result))))
        del result  # an exception holds what was made of its batch


def _make(make: Callable[[int], Any], step: int, slot: Slot) -> Where:
    with making_in(slot):
        batch = make(step)
    return slot.write(batch)


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
