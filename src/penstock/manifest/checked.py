"""Mapped files that are compared with checksums, block by block, when a block is first used. Knows no file format.

Checking whole files when they are opened would take a second per two gigabytes. A block is checked once per process.
"""

import mmap
import zlib
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints

BLOCK_BITS = 14  # small enough that looking up one row is cheap, large enough that the checksums are few
BLOCK_BYTES = 1 << BLOCK_BITS

N = TypeVar("N", bound=np.generic)


def block_checksums(path: Path) -> NDArray[np.uint32]:
    """Return the CRC-32 of every block of a file."""
    with open(path, "rb") as file:
        found = [zlib.crc32(block) for block in iter(lambda: file.read(BLOCK_BYTES), b"")]
    return np.array(found, dtype="<u4")


class CheckedFile:
    """A file that is mapped into memory.

    Args:
        path: the file.
        size: its length in bytes when it was written.
        checksums: what ``block_checksums`` returned then.

    Attributes:
        memory: its bytes. Check a range before you use it.
        address: where they begin in memory.

    Raises:
        ManifestError: If the file is missing or has another length.
    """

    def __init__(self, path: Path, size: int, checksums: NDArray[np.uint32]) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.memory = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except (OSError, ValueError) as error:  # ValueError: it is empty
            raise ManifestError(f"{path}: not readable: {error}; {_REMEDY}") from None
        if len(self.memory) != size:
            raise ManifestError(f"{path}: has {len(self.memory):,} bytes, but {size:,} were written; {_REMEDY}")
        self.address: int = np.frombuffer(self.memory, np.uint8).__array_interface__["data"][0]
        self._checksums = checksums
        self._good = np.zeros(len(checksums), dtype=bool)

    def check(self, start: int, end: int) -> None:
        """Check the bytes from ``start`` to ``end`` (exclusive), clipped to the file.

        Raises:
            ManifestError: If they are not those that were written.
        """
        first = max(0, start) // BLOCK_BYTES
        self._check_blocks(np.arange(first, -(-min(end, len(self.memory)) // BLOCK_BYTES)))

    def check_each(self, starts: Ints, ends: Ints) -> None:
        """Check many ranges; see ``check``. An empty range may be checked, too."""
        first = starts >> BLOCK_BITS
        last = np.maximum(starts, ends - 1) >> BLOCK_BITS
        self._check_blocks(first)
        self._check_blocks(last)
        for at in np.flatnonzero(last - first > 1).tolist():
            self._check_blocks(np.arange(first[at], last[at]))

    def check_at(self, offsets: Ints) -> None:
        """Check the blocks of single bytes, or of numbers that are aligned to their size."""
        self._check_blocks(offsets >> BLOCK_BITS)

    def _check_blocks(self, blocks: Ints) -> None:
        good = self._good[blocks]
        if good.all():
            return
        for block in np.unique(blocks[~good]).tolist():
            start = block * BLOCK_BYTES
            if zlib.crc32(self.memory[start : start + BLOCK_BYTES]) != self._checksums[block]:
                end = min(start + BLOCK_BYTES, len(self.memory))
                raise ManifestError(
                    f"{self.path}: damaged between bytes {start:,} and {end:,}: the checksum is wrong; {_REMEDY}"
                )
            self._good[block] = True


class Column(Generic[N]):
    """Numbers that lie in a checked file. They are checked before they are returned.

    Args:
        file: the file.
        values: a view of its memory, aligned to the size of a number.
    """

    def __init__(self, file: CheckedFile, values: "NDArray[N]") -> None:
        self._file = file
        # An empty array need not lie in the file.
        self._start: int = values.__array_interface__["data"][0] - file.address if len(values) else 0
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: Ints) -> "NDArray[N]":
        """Return some of the numbers."""
        self._file.check_at(self._start + rows * self._values.itemsize)
        return self._values[rows]

    def item(self, row: int) -> Any:
        """Return one of the numbers, as a Python object."""
        at = self._start + row * self._values.itemsize
        self._file.check(at, at + self._values.itemsize)
        return self._values.item(row)

    def ranges(self, starts: Ints, ends: Ints) -> memoryview:
        """Return all numbers as they lie in memory, after some ranges of them were checked."""
        size = self._values.itemsize
        self._file.check_each(self._start + starts * size, self._start + ends * size)
        return self._values.data


_REMEDY = "remove the folder and make it again (penstock index; a filelist is compiled again by the next run)"
