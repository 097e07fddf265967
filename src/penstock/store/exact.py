"""Exact positioned reads into the caller's buffer. Knows nothing of who owns the descriptor."""

import os


def fill(fd: int, size: int, buffer: memoryview, offset: int, name: object) -> int:
    """Fill the buffer from ``offset`` of a file of ``size`` bytes, or raise an error with ``name``; its length."""
    wanted = buffer.nbytes
    check_range(size, wanted, offset, name)
    if os.preadv(fd, (buffer,), offset) != wanted:  # a local file seldom gives less
        _fill_by_pieces(fd, size, buffer.cast("B"), offset, name)
    return wanted


def _fill_by_pieces(fd: int, size: int, left: memoryview, offset: int, name: object) -> None:
    while left:
        count = os.preadv(fd, (left,), offset)
        if count == 0:
            raise EOFError(f"{name}: the file was cut at byte {offset} while it was open (had {size})")
        left, offset = left[count:], offset + count


def check_range(size: int, wanted: int, offset: int, name: object) -> None:
    if offset < 0 or offset + wanted > size:
        raise EOFError(
            f"{name}: bytes {offset}..{offset + wanted} asked for, but the file has {size}; "
            "the index and the file do not belong together"
        )
