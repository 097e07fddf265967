"""The protocols of stores and of their open objects, local or remote. Knows nothing of file formats, items or plans."""

from contextlib import closing
from typing import Protocol

ByteRange = tuple[int, int]
"""First byte and end (exclusive) of a range of an object."""


class Blob(Protocol):
    """One object, open for random reads from any thread, and pinned until it is closed.

    It closes itself when its refcount drops to zero.
    """

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> str:
        """Version of the object's bytes in this run: an ETag, or inode, size and mtime of a local file."""
        ...

    def readinto(self, buffer: memoryview, offset: int) -> None:
        """Fill the whole buffer from ``offset`` on. There are no short reads.

        Raises:
            EOFError: If the object is too short.
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
        """A URL without secrets that is unique on this machine, also for a local folder."""
        ...

    def open(self, path: str, within: ByteRange | None = None) -> Blob:
        """Open an object, or a range of it, whose offsets then count from its start."""
        ...

    def open_if_here(self, path: str, within: ByteRange | None = None) -> Blob | None:
        """Open an object if all of it can be read without waiting, else return None. For ``Reader.wants``."""
        ...

    def version(self, path: str) -> str:
        """Return the version of an object in this run, which identifies cached metadata. May ask a remote store."""
        ...

    def close(self) -> None: ...


def read_object(store: Store, path: str) -> bytes:
    """Return all bytes of an object."""
    with closing(store.open(path)) as blob:
        data = bytearray(blob.size)
        if data:
            blob.readinto(memoryview(data), 0)
    return bytes(data)
