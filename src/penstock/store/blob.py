"""What every reader of bytes offers, local or remote. Knows nothing of file formats, items or plans."""

from typing import Protocol

ByteRange = tuple[int, int]
"""Bytes from the first number to the second (exclusive) of an object."""


class Blob(Protocol):
    """One object, open for random reads from any thread. What it reads is pinned until it is closed.

    It closes itself when its refcount drops to zero.
    """

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> str:
        """Changes when the object's bytes change during a run: an ETag, or inode, size and mtime of a local file."""
        ...

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer with the bytes from ``offset`` on. There are no short reads.

        Raises:
            EOFError: the object is too short.
        """
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """A folder or a bucket prefix; paths are relative to it."""

    @property
    def url(self) -> str:
        """The URL of a remote store, without secrets; empty for a local folder."""
        ...

    @property
    def identity(self) -> str:
        """A URL that no other store of this machine has, also of a local folder; without secrets."""
        ...

    def open(self, path: str, within: ByteRange | None = None) -> Blob:
        """Open an object, or a range of it: its bytes then count from the range's start."""
        ...

    def open_if_here(self, path: str, within: ByteRange | None = None) -> Blob | None:
        """Return the object if all of it can be read without waiting, else None. For metadata, in ``Reader.wants``."""
        ...

    def version(self, path: str) -> str:
        """Return the version of an object that this run sees, under which what is learnt about it is kept.

        May ask a remote store.
        """
        ...

    def close(self) -> None: ...
