"""What every reader of bytes offers, local or remote. Knows nothing of tars, items or plans."""

from typing import Protocol


class Blob(Protocol):
    """One object, open for random reads from any thread. What it reads is pinned until it is closed.

    It closes itself when nobody refers to it any more.
    """

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> str:
        """Changes when the object's bytes change: an ETag, or size and mtime of a local file."""
        ...

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer with the bytes from ``offset`` on, or raise: never a short read."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """A folder or a bucket prefix; paths are relative to it."""

    @property
    def url(self) -> str:
        """Of a remote store, without secrets; empty for a local folder."""
        ...

    def open(self, path: str) -> Blob: ...

    def close(self) -> None: ...
