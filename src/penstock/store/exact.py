"""Exact positioned reads into the caller's buffers. Knows nothing of who owns the descriptor."""

import os
from collections.abc import Sequence

# The kernel takes at most this many buffers a call (IOV_MAX); a batch may bring more.
MAX_BUFFERS = 1024


def fill(fd: int, size: int, buffers: Sequence[memoryview], offset: int, name: object) -> int:
    """Fill all buffers from ``offset`` of a file of ``size`` bytes, or raise an error with ``name``; their length."""
    wanted = sum([view.nbytes for view in buffers])
    check_range(size, wanted, offset, name)
    if len(buffers) > MAX_BUFFERS or os.preadv(fd, buffers, offset) != wanted:  # a local file seldom gives less
        _fill_by_pieces(fd, size, buffers, offset, name)
    return wanted


def _fill_by_pieces(fd: int, size: int, buffers: Sequence[memoryview], offset: int, name: object) -> None:
    left, first = [b for b in (view.cast("B") for view in buffers) if len(b)], 0
    while first < len(left):
        count = os.preadv(fd, left[first : first + MAX_BUFFERS], offset)
        if count == 0:
            raise EOFError(f"{name}: the file was cut at byte {offset} while it was open (had {size})")
        offset += count
        while first < len(left) and count >= len(left[first]):
            count -= len(left[first])
            first += 1
        if count:
            left[first] = left[first][count:]


def check_range(size: int, wanted: int, offset: int, name: object) -> None:
    if offset < 0 or offset + wanted > size:
        raise EOFError(
            f"{name}: bytes {offset}..{offset + wanted} asked for, but the file has {size}; "
            "the index and the file do not belong together"
        )
