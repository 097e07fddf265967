"""Exact positioned reads into the caller's buffer. Does not own the descriptor."""

import os


def fill(fd: int, size: int, buffer: memoryview, offset: int, name: object) -> int:
    """Fill the whole buffer from ``offset`` of a file.

    Args:
        fd: the file's descriptor.
        size: the file's length in bytes, as it was when the file was opened.
        name: the file's name, for errors.

    Returns:
        The length of the buffer in bytes.

    Raises:
        EOFError: the range is not in the file, or the file was truncated.
    """
    wanted = buffer.nbytes
    check_range(size, wanted, offset, name)
    if os.preadv(fd, (buffer,), offset) != wanted:  # short reads of local files are rare
        _fill_by_pieces(fd, size, buffer.cast("B"), offset, name)
    return wanted


def _fill_by_pieces(fd: int, size: int, left: memoryview, offset: int, name: object) -> None:
    while left:
        count = os.preadv(fd, (left,), offset)
        if count == 0:
            raise EOFError(f"{name}: the file was truncated at byte {offset} while it was open (it had {size} bytes)")
        left = left[count:]
        offset += count


def check_range(size: int, wanted: int, offset: int, name: object) -> None:
    """Raise EOFError unless ``wanted`` bytes from ``offset`` lie within ``size`` bytes."""
    if offset < 0 or offset + wanted > size:
        raise EOFError(
            f"{name}: bytes {offset}..{offset + wanted} requested, but the file has {size}; "
            "the index does not match the file"
        )
