"""Batches made ahead by processes of our own, handed out in order through a ring of shared slots.

Step s goes to worker s mod N and comes back from it, so the order needs no sorting. The workers are started as plain
interpreters: nothing of the trainer's threads, clients or locks is inherited, and its script needs no guard.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from socket import SOCK_SEQPACKET, socketpair
from typing import Any

from penstock.loader.child import ANSWER, ASKED
from penstock.loader.ring import FreeSlots, Slot

_LENT = 2  # batches the trainer may hold in place, of each worker its share; what it holds beyond that is copied


class WorkerDied(RuntimeError):
    """A worker process ended by itself; the step can simply be asked for again."""


class _Worker:
    """With slots of its own, as many as it is ahead and may have lent."""

    def __init__(self, make: int, ahead: int, lent: int) -> None:
        self._may_lend, self._lent = lent, set[int]()
        self._slots = [Slot.create() for _ in range(ahead + lent)]
        self._free = FreeSlots.create(len(self._slots))
        self.socket, theirs = socketpair(type=SOCK_SEQPACKET)
        fds = [theirs.fileno(), make, self._free.fd, *(slot.fd for slot in self._slots)]
        # The trainer's own path, and not the folder it happens to run in.
        command = f"import sys; sys.path[:] = {sys.path!r}; from penstock.loader.child import main; main(*{fds})"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            pass_fds=fds,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # the processes are the parallelism
        )
        theirs.close()

    def ask(self, step: int) -> None:
        # A dead worker is told of in the turn of the first batch that it still owes: those it had made are there.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.send(ASKED.pack(step))

    def answer(self, step: int) -> Any:
        """The batch that was asked for first; ``step`` is its."""
        answer = self._receive() or self._receive()  # that it was killed is told once, before what it had still sent
        if not answer:
            code = self.process.wait()
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise WorkerDied(f"worker process {self.process.pid} {how} while it made step {step}")
        made, slot, start, end = ANSWER.unpack(answer)
        if made and len(self._lent) < self._may_lend:
            self._lent.add(slot)
            return self._slots[slot].lend((start, end), lambda: self._take_back(slot))
        result = self._slots[slot].copy((start, end))
        self._free.give_back(slot)
        if not made:
            raise result
        return result

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(ANSWER.size)
        except ConnectionResetError:
            return b""

    def _take_back(self, slot: int) -> None:
        self._free.give_back(slot)
        self._lent.discard(slot)

    def close(self) -> None:
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._free.close()
        for slot in self._slots:
            slot.close()


class Processes:
    """``make`` of each step in order, from ``workers`` processes, each given ``ahead`` steps at once."""

    def __init__(self, make: Callable[[int], Any], steps: Iterable[int], workers: int, ahead: int = 2) -> None:
        self._steps, self._ahead = iter(steps), workers * ahead
        pickled, fd = pickle.dumps(make), os.memfd_create("penstock")
        try:
            os.write(fd, pickled)
            self._workers = [_Worker(fd, ahead, -(-_LENT // workers)) for _ in range(workers)]
        finally:
            os.close(fd)
        self._turns = cycle(self._workers)
        self._asked: deque[tuple[int, _Worker]] = deque()  # (step, worker), in order

    def __iter__(self) -> Iterator[Any]:
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
        for worker in self._workers:
            worker.socket.close()
        for worker in self._workers:
            worker.close()
