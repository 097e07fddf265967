"""A remote store read without a cache, for code that reads every object once, from end to end."""

from dataclasses import dataclass

from penstock.store.blob import Blob, ByteRange
from penstock.store.ranges import RangedBlob, check_range
from penstock.store.remote.remote import ObjectInfo, Remote


@dataclass(frozen=True, slots=True)
class DirectBlob:
    """One object in one version; every read is a request."""

    remote: Remote
    key: str
    info: ObjectInfo

    @property
    def size(self) -> int:
        return self.info.size

    @property
    def version(self) -> str:
        return self.info.etag

    def readinto(self, buffer: memoryview, offset: int) -> None:
        wanted = buffer.nbytes
        check_range(self.size, wanted, offset, f"{self.remote.url}/{self.key}")
        if wanted:
            buffer.cast("B")[:] = self.remote.get_range(self.key, offset, offset + wanted, self.info.etag)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class DirectStore:
    """A ``Store``; can be pickled, as its remote can."""

    remote: Remote

    @property
    def url(self) -> str:
        return self.remote.url

    @property
    def identity(self) -> str:
        return self.remote.url

    def open(self, path: str, within: ByteRange | None = None) -> Blob:
        blob = DirectBlob(self.remote, path, self.remote.head(path))
        return blob if within is None else RangedBlob(blob, within, f"{self.url}/{path}")

    def open_if_here(self, path: str, within: ByteRange | None = None) -> None:
        """Return None: nothing is kept locally."""

    def version(self, path: str) -> str:
        return self.remote.head(path).etag

    def close(self) -> None:
        """Nothing is held."""
