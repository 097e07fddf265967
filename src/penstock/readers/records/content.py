"""The content of one file, and the errors of its records."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.readers.records.strides import Strided
from penstock.store.extents import Extent

MOST_BYTES = 64 << 20  # of a record
TOO_LONG = f"longer than {MOST_BYTES >> 20} MiB"


class BadRecord(ValueError):
    """A record can't be used. The message is a short phrase that is counted, such as ``not JSON``."""


class Content(NamedTuple):
    """The content of one file, unpacked if it is compressed."""

    strided: Strided
    path: str

    @property
    def size(self) -> int:
        return self.strided.size(self.path)

    def upto(self, end: int) -> int:
        """Return ``end``, or the size of the content if that is less. Reads no more of the file than it must."""
        return self.strided.upto(self.path, end)

    def read(self, start: int, end: int) -> NDArray[np.uint8]:
        return self.strided.read(self.path, start, end)

    def cached_size(self) -> int:
        """Return about how many bytes it takes in the cache; 0 if the file is read in place. May ask the store."""
        return self.strided.cached_size(self.path)

    def extents(self, start: int, end: int) -> list[Extent]:
        return self.strided.extents(self.path, start, end)
