"""Batches made ahead by worker processes, returned in order through slots of shared memory.

Workers get steps in turn, and batches are received in the same turn, so they need no sorting. Each worker walks only
its own steps, and fetches ahead only what these need. Workers are new interpreters: they inherit no threads, clients or
locks of the trainer, and its script needs no ``if __name__ == "__main__"``.
"""

import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from socket import SHUT_RDWR, SOCK_SEQPACKET, socketpair

from penstock.feed.batches import MadeUnits
from penstock.feed.steps import Steps
from penstock.feed.walk import OpenWalk
from penstock.loader.child import ANSWER, ASKED
from penstock.loader.ring import FreeSlots, Slot
from penstock.runtime.mappedpickle import dump_mapped
from penstock.runtime.shared import pickling_for_workers

log = logging.getLogger(__name__)

_LENT_BATCHES = 2  # zero-copy in the trainer at a time, over all workers; further batches are copied
_SILENT_SECONDS = 60.0  # until a warning that a worker has not answered
_END_SECONDS = 3.0  # for all workers to end before they are killed


class WorkerDied(RuntimeError):
    """A worker process ended unexpectedly. The step can be requested again.

    Examples:
        >>> import penstock
        >>> with penstock.open("run.yaml").loader(workers=1) as loader:
        ...     try:
        ...         batch = next(loader)
        ...     except penstock.WorkerDied as error:  # such as a worker that was out of memory
        ...         print(error)
    """


class _Worker:
    """A worker process with its own slots: one per batch made ahead, and one per batch that may be lent.

    Args:
        walk: Descriptor of a file with the pickled function that opens a walk; see ``runtime.mappedpickle``.
        steps: Steps of the worker.
        ahead: Number of batches that it makes ahead.
        lent: Maximum number of batches that the trainer holds zero-copy.
    """

    def __init__(self, walk: int, steps: Steps, ahead: int, lent: int) -> None:
        self._may_lend = lent
        self._lent = set[int]()
        self._slots = [Slot.create() for _ in range(ahead + lent)]
        self._free = FreeSlots.create(len(self._slots))
        self.socket, theirs = socketpair(type=SOCK_SEQPACKET)
        self.socket.settimeout(_SILENT_SECONDS)
        fds = [theirs.fileno(), walk, self._free.fd, *(slot.fd for slot in self._slots)]
        # sys.path is that of the trainer; -P keeps the current folder out of it.
        command = f"import sys; sys.path[:] = {sys.path!r}; from penstock.loader.child import Steps, main; "
        command += f"main({steps!r}, {os.getpid()}, *{fds})"
        with _without_ctrl_c():
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", command],
                pass_fds=fds,
                env={**os.environ, "OMP_NUM_THREADS": "1"},  # parallelism comes from the processes
            )
        theirs.close()

    def ask(self, step: int) -> None:
        """Request a step."""
        # A dead worker is reported by ``answer``, after the batches that it had already made.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.send(ASKED.pack(step))

    def answer(self, step: int) -> MadeUnits:
        """Return the batches of the step that was requested first.

        Args:
            step: Step of that batch.

        Raises:
            WorkerDied: If the worker has ended.
        """
        # A kill gives one reset before what the worker had already sent.
        answer = self._receive(step) or self._receive(step)
        if not answer:
            code = self.process.wait()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise WorkerDied(f"worker process {self.process.pid} {how} while it made step {step}")
        answered, made, slot, start, end = ANSWER.unpack(answer)
        if answered != step:
            raise RuntimeError(
                f"worker process {self.process.pid} answered step {answered} instead of step {step}: another process "
                "or thread has read from its socket"
            )
        if made and len(self._lent) < self._may_lend:
            self._lent.add(slot)
            lent: MadeUnits = self._slots[slot].lend((start, end), lambda: self._take_back(slot))
            return lent
        result: MadeUnits | Exception = self._slots[slot].copy((start, end))
        self._free.give_back(slot)
        if isinstance(result, Exception):
            raise result
        return result

    def _receive(self, step: int) -> bytes:
        while True:
            try:
                return self.socket.recv(ANSWER.size)
            except ConnectionResetError:
                return b""
            except TimeoutError:
                log.warning(
                    "step %d: worker process %d has not answered for %.0f s", step, self.process.pid, _SILENT_SECONDS
                )

    def _take_back(self, slot: int) -> None:
        self._free.give_back(slot)
        self._lent.discard(slot)

    def close(self, deadline: float) -> None:
        try:
            self.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._free.close()
        for slot in self._slots:
            slot.close()


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block SIGINT in processes that are started within the block, until they can ignore it themselves."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Processes:
    """The batches of a walk in order, step by step, made by worker processes.

    Args:
        open_walk: Function that opens a walk in each worker. Must pickle.
        steps: Steps to make.
        workers: Number of processes.
        ahead: Number of steps that each worker is given at a time.

    Raises:
        TypeError: If ``open_walk`` does not pickle.
    """

    def __init__(self, open_walk: OpenWalk, steps: Steps, workers: int, ahead: int = 2) -> None:
        self._steps = iter(steps)
        self._ahead = workers * ahead
        pickled = _pickled(open_walk)
        lent = -(-_LENT_BATCHES // workers)
        fd = os.memfd_create("penstock")
        try:
            with open(fd, "wb", closefd=False) as file:
                file.writelines(pickled)
            self._workers = [_Worker(fd, steps.share(number, workers), ahead, lent) for number in range(workers)]
        finally:
            os.close(fd)
        self._turns = cycle(self._workers)
        self._asked: deque[tuple[int, _Worker]] = deque()  # (step, worker), in order

    def __iter__(self) -> Iterator[MadeUnits]:
        while True:
            while len(self._asked) < self._ahead and (step := next(self._steps, None)) is not None:
                worker = next(self._turns)
                worker.ask(step)
                self._asked.append((step, worker))
            if not self._asked:
                return
            step, worker = self._asked.popleft()
            yield worker.answer(step)

    def close(self) -> None:
        """End the workers, including those that wait for a store."""
        for worker in self._workers:
            with suppress(OSError):  # closed already
                worker.socket.shutdown(SHUT_RDWR)  # closing is not enough if a forked child has a copy of the socket
            worker.socket.close()
        deadline = time.monotonic() + _END_SECONDS
        for worker in self._workers:
            worker.close(deadline)


def _pickled(open_walk: OpenWalk) -> list[bytes | memoryview]:
    try:
        with pickling_for_workers():
            return list(dump_mapped(open_walk))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"worker processes need a recipe and a reader that pickle: {error}; define them at the top level of a "
            "module, or use threads instead of workers"
        ) from error
