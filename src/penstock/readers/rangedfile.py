"""File objects over ranges of bytes, for libraries that read files. Knows no store."""

import io
from abc import abstractmethod


class RangedFile(io.RawIOBase):
    """A file object of a known size. A subclass reads at the position, and moves it.

    Args:
        size: Size in bytes.

    Attributes:
        size: Size in bytes.
        at: Position.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = base + offset
        return self.at

    @abstractmethod
    def read(self, size: int = -1) -> bytes:
        """Return bytes from the position on; all that follow by default."""
