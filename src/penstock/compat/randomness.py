"""Global random generators seeded for one sample, and restored after it: random transforms then give the same result
in every process and thread."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from penstock.runtime.forking import reset_in_children


class _GeneratorLock:
    """Lock of the global generators, which all threads of the process share."""

    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        self.lock = threading.RLock()


_turn = _GeneratorLock()


def seed_generators(seed: int) -> None:
    """Seed ``torch`` on the CPU, ``numpy.random`` and ``random``.

    Args:
        seed: Seed of 64 bits.
    """
    # Not torch.manual_seed: it queues the seed for every kind of accelerator that was not used yet, without an end.
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    random.seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed ``torch``, ``numpy.random`` and ``random`` within a block, and restore them after it.

    Args:
        seed: Seed of 64 bits.
    """
    with _turn.lock:
        torch_state = torch.get_rng_state()
        numpy_state = np.random.get_state()
        python_state = random.getstate()
        seed_generators(seed)
        try:
            yield
        finally:
            torch.set_rng_state(torch_state)
            np.random.set_state(numpy_state)
            random.setstate(python_state)
