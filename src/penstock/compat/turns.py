"""Which worker of a ``DataLoader`` makes which batch, and what is left for it after some of them. Pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Share(NamedTuple):
    """What one worker makes of the rest of an epoch.

    Attributes:
        role: the worker whose samples it makes.
        skip: how many of those samples were used already.
    """

    role: int
    skip: int


def batch_count(lengths: Sequence[int], batch_size: int) -> int:
    """Return how many batches workers make of so many samples each. The last one of each worker may be short."""
    return sum(_counts(lengths, batch_size))


def share(worker: int, lengths: Sequence[int], batches: int, batch_size: int) -> Share:
    """Return what a worker makes after some batches of an epoch were used.

    A ``DataLoader`` takes one batch of each worker in turn, and passes over workers that have no more. When it starts
    again in the middle of an epoch, the worker that was next has to come first.

    Args:
        worker: the number of the worker.
        lengths: samples of the epoch that each worker makes.
        batches: that were used.
        batch_size: samples of each.
    """
    if not batches:
        return Share(worker, 0)
    counts = _counts(lengths, batch_size)
    rounds, left = divmod(batches, len(lengths))
    used = [min(rounds, min(counts))] * len(lengths)
    left = batches - sum(used)
    following = 0
    while left and used != counts:
        following = next(number for number in _after(following, len(lengths)) if used[number] < counts[number])
        used[following] += 1
        left -= 1
        following = (following + 1) % len(lengths)
    role = (worker + following) % len(lengths)
    return Share(role, min(lengths[role], used[role] * batch_size))


def _counts(lengths: Sequence[int], batch_size: int) -> list[int]:
    return [-(-length // batch_size) for length in lengths]


def _after(first: int, count: int) -> list[int]:
    return [number % count for number in range(first, first + count)]
