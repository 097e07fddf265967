"""Byte ranges of open files and blobs: checked, and read without short reads. Does not own the descriptors."""

import os

from penstock.store.blob import Blob, ByteRange


def read_exactly(fd: int, size: int, buffer: memoryview, offset: int, name: object) -> int:
    """Fill the whole buffer from ``offset`` of a file.

    Args:
        fd: File descriptor.
        size: Size of the file in bytes when it was opened.
        name: Name of the file, for errors.

    Returns:
        Size of the buffer in bytes.

    Raises:
        EOFError: If the range is not in the file, or the file was truncated.
    """
    wanted = buffer.nbytes
    check_range(size, wanted, offset, name)
    if os.preadv(fd, (buffer,), offset) != wanted:  # short reads of local files are rare
        _read_rest(fd, size, buffer.cast("B"), offset, name)
    return wanted


def _read_rest(fd: int, size: int, left: memoryview, offset: int, name: object) -> None:
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


class RangedBlob:
    """Bytes of another blob, counted from the range's start. Closing it closes the other."""

    def __init__(self, blob: Blob, within: ByteRange, name: object) -> None:
        first, last = within
        check_range(blob.size, last - first, first, name)
        self._blob = blob
        self._first = first
        self._name = name
        self.size = last - first

    @property
    def version(self) -> str:
        return self._blob.version

    def readinto(self, buffer: memoryview, offset: int) -> None:
        check_range(self.size, buffer.nbytes, offset, self._name)
        self._blob.readinto(buffer, self._first + offset)

    def close(self) -> None:
        self._blob.close()
