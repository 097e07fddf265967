"""What every reader of bytes offers, local or remote. Knows nothing of file formats, items or plans."""

from typing import Protocol


class Blob(Protocol):
    """One object, open for random reads from any thread. What it reads is pinned until it is closed.

    It closes itself when its refcount drops to zero.
    """

    @property
    def size(self) -> int: ...

    @property
    def version(self) -> str:
        """Changes when the object's bytes change: an ETag, or size and mtime of a local file."""
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

    def open(self, path: str) -> Blob: ...

    def open_if_here(self, path: str) -> Blob | None:
        """Return the object if all of it can be read without waiting, else None. For metadata, in ``Reader.wants``."""
        ...

    def close(self) -> None: ...
