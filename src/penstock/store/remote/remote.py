"""The protocol of remote stores, and their errors. Knows no transport."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class StoreError(OSError):
    """A request to a store failed; the message names the object's URL and the cause."""


class ObjectMissing(StoreError, FileNotFoundError):
    """There is no such object, bucket or repository."""


class AccessDenied(StoreError, PermissionError):
    """The store refuses access, with the given credentials or without any."""


class ObjectChanged(StoreError):
    """The object is no longer the version that was asked for."""


class StoreUnavailable(StoreError, ConnectionError):
    """A temporary failure lasted longer than the time for retries."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Size and version of an object.

    ``etag`` names the version: the store's ETag without its quotes, or ``mtime-…`` where the store has none.
    """

    size: int
    etag: str


class Remote(Protocol):
    """Objects under one URL; keys are relative to it. Safe from any thread, after a fork, and to pickle."""

    @property
    def url(self) -> str:
        """Without secrets: it may be logged, hashed and stored."""
        ...

    @property
    def retries(self) -> int:
        """Number of requests that this process has retried."""
        ...

    def head(self, key: str) -> ObjectInfo: ...

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        """Return exactly the bytes ``start`` to ``end`` (exclusive) of a version.

        Raises:
            ObjectChanged: If the store has another version.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        """Return all objects below the folder ``prefix``, by key."""
        ...
