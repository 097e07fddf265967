"""Memory-mapped files whose blocks are verified by checksum on first use. Knows no file format.

Verifying whole files on opening would take a second per two gigabytes. A block is verified once per process.
"""

import mmap
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.manifest.errors import ManifestError
from penstock.plan.draws import Ints

BLOCK_BYTES = 1 << 14  # small enough that looking up one row is cheap, large enough that the checksums are few
ROW_BITS = 8  # 256 rows are checked together


def block_checksums(path: Path) -> NDArray[np.uint32]:
    """Return the CRC-32 of every block of a file."""
    with open(path, "rb") as file:
        found = [zlib.crc32(block) for block in iter(lambda: file.read(BLOCK_BYTES), b"")]
    return np.array(found, dtype="<u4")


class CheckedFile:
    """A memory-mapped file.

    Args:
        path: Path of the file.
        size: Size in bytes when it was written.
        checksums: Result of ``block_checksums`` when it was written.

    Attributes:
        path: Path of the file.
        memory: Bytes of the file. Check a range before using it.
        address: Address of the first byte.

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
            ManifestError: If they have changed since they were written.
        """
        first = max(0, start) // BLOCK_BYTES
        after = -(-min(end, len(self.memory)) // BLOCK_BYTES)
        for block in np.flatnonzero(~self._good[first:after]).tolist():
            self._check_block(first + block)

    def check_array(self, values: NDArray[Any]) -> None:
        """Check the bytes of an array that is a view of ``memory``; see ``check``."""
        if len(values):  # an empty array may lie outside of the file
            start = values.__array_interface__["data"][0] - self.address
            self.check(start, start + values.nbytes)

    def _check_block(self, block: int) -> None:
        start = block * BLOCK_BYTES
        if zlib.crc32(self.memory[start : start + BLOCK_BYTES]) != self._checksums[block]:
            end = min(start + BLOCK_BYTES, len(self.memory))
            raise ManifestError(
                f"{self.path}: damaged between bytes {start:,} and {end:,}: the checksum is wrong; {_REMEDY}"
            )
        self._good[block] = True


class CheckedRows:
    """Rows whose bytes are checked on first use, many at a time: most rows then cost one look-up.

    Args:
        count: Number of rows.
        check: Function that checks the bytes of the rows from its first argument to its second (exclusive).
        row_bits: Base-2 logarithm of the number of rows that are checked together.
    """

    def __init__(self, count: int, check: Callable[[int, int], None], row_bits: int = ROW_BITS) -> None:
        self._row_bits = row_bits
        self._count = count
        self._check = check
        self._good = np.zeros((count >> row_bits) + 1, dtype=bool)

    def use(self, rows: Ints) -> None:
        """Check rows that were not checked yet.

        Raises:
            ManifestError: If they are damaged.
        """
        spans = rows >> self._row_bits
        good = self._good[spans]
        if good.all():
            return
        for span in np.unique(spans[~good]).tolist():
            first = span << self._row_bits
            self._check(first, min(self._count, first + (1 << self._row_bits)))
            self._good[span] = True


_REMEDY = "remove the folder and make it again (penstock index; a filelist is compiled again by the next run)"
