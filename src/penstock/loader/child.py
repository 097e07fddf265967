"""A worker process: makes the requested batches and writes them into free slots. Ends with its parent.

A request is the number of a step. The answer is that step, the number of a slot, and where the batch lies in the slot.
"""

import gc
import pickle
import signal
import struct
import traceback
from collections.abc import Callable
from functools import partial
from socket import socket
from typing import TypeVar

from penstock.feed.steps import Steps
from penstock.feed.walk import OpenWalk, Walk
from penstock.loader.ring import FreeSlots, Slot, SlotRange
from penstock.runtime.cores import this_is_a_worker
from penstock.runtime.lending import making_in
from penstock.runtime.mappedpickle import load_mapped
from penstock.runtime.parents import end_with_parent

T = TypeVar("T")
ASKED = struct.Struct("q")  # step
ANSWER = struct.Struct("q?qqq")  # step, whether it was made (else the slot holds an exception), slot, where in it


def main(steps: Steps, parent: int, asked: int, walk: int, free: int, *slots: int) -> None:
    """Serve requests until the trainer closes the socket.

    Args:
        steps: Steps of this worker.
        parent: Process id of the trainer.
        asked: Descriptor of the socket for requests and answers.
        walk: Descriptor of a file with the pickled function that opens a walk; see ``runtime.mappedpickle``.
        free: Descriptor of the list of free slots.
        slots: Descriptors of all slots.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer handles Ctrl-C and closes the socket
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the parent blocked it until here
    end_with_parent(parent, asked)
    this_is_a_worker()
    try:
        with socket(fileno=asked) as trainer:
            _serve(trainer, lambda: _open(walk)(steps), FreeSlots(free), [Slot(fd) for fd in slots])
    except (BrokenPipeError, ConnectionResetError):
        pass  # the trainer has ended


def _open(fd: int) -> OpenWalk:
    try:
        opened: OpenWalk = load_mapped(fd)
    except AttributeError as error:
        if "__main__" not in str(error):
            raise
        raise TypeError(
            f"a worker process cannot import what the trainer's script defines ({error}): move it into a module of its "
            "own, or use threads instead of workers"
        ) from None
    return opened


def _serve(trainer: socket, open_walk: Callable[[], Walk], free: FreeSlots, slots: list[Slot]) -> None:
    walk = _attempt(open_walk)
    gc.freeze()  # objects made so far live as long as the process: collections need not visit them
    while request := trainer.recv(ASKED.size):  # empty when the trainer has closed the loader
        (step,) = ASKED.unpack(request)
        number = free.take()
        slot = slots[number]
        result = walk if isinstance(walk, Exception) else _attempt(partial(_make, walk, step, slot))
        made = not isinstance(result, Exception)
        if isinstance(result, Exception):
            slot.clear()
            result = slot.write(result)
        trainer.send(ANSWER.pack(step, made, number, *result))
        del result  # the traceback of an exception keeps its batch alive


def _make(walk: Walk, step: int, slot: Slot) -> SlotRange:
    with making_in(slot):
        batches = walk.units(step)
    return slot.write(batches)


def _attempt(call: Callable[[], T]) -> T | Exception:
    """Return the result of a call, or the exception that the trainer is to raise."""
    try:
        return call()
    except Exception as error:
        error.add_note("in a worker process:\n" + traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return error
