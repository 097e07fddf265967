"""A range of an open blob as a blob of its own. Knows nothing of where the bytes lie."""

from penstock.store.blob import Blob, ByteRange
from penstock.store.exact import check_range


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
