"""A worker process: makes the batches it is asked for and leaves them in the slots it is told. Ends with its parent."""

import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from penstock.loader.ring import Slot


def main(pipe: int) -> None:
    """Serve requests that come through a descriptor: first how to begin, then (step, slot) after (step, slot)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's, which then closes the pipe
    connection = Connection(pipe)
    try:
        sys.path[:], fds = connection.recv()
        slots = [Slot(fd) for fd in fds]
        opened, feed = _attempt(pickle.loads, connection.recv_bytes())
        while True:
            step, slot = connection.recv()
            made, result = _attempt(feed.__getitem__, step) if opened else (opened, feed)
            connection.send((made, slots[slot].write(result) if made else result))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the trainer has closed the loader, or is gone


def _attempt(call: Any, argument: Any) -> tuple[bool, Any]:
    """(True, the result) or (False, the exception as the trainer is to raise it)."""
    try:
        return True, call(argument)
    except Exception as error:
        error.add_note("in a worker process:\n" + traceback.format_exc())
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return False, RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return False, error
