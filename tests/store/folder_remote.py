"""A folder of plain files as a remote store, with a note of every request. No network, no client."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing, Remote


class FolderRemote:
    url = "s3://bucket/pre"
    retries = 0

    def __init__(self, folder: Path, before_get: Callable[[int, int], None] = lambda start, end: None) -> None:
        self.folder = folder
        self.heads: list[str] = []
        self.gets: list[tuple[str, int, int]] = []
        self.before_get = before_get

    def put(self, key: str, data: bytes) -> bytes:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return data

    def info(self, key: str) -> ObjectInfo:
        try:
            data = (self.folder / key).read_bytes()
        except FileNotFoundError:
            raise ObjectMissing(f"{self.url}/{key} is not there") from None
        return ObjectInfo(len(data), hashlib.md5(data).hexdigest())

    def head(self, key: str) -> ObjectInfo:
        self.heads.append(key)
        return self.info(key)

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        self.gets.append((key, start, end))
        self.before_get(start, end)
        if self.info(key).etag != etag:
            raise ObjectChanged(f"{self.url}/{key} is no longer {etag}")
        return memoryview((self.folder / key).read_bytes()[start:end])

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        raise NotImplementedError("the cache does not list")


def open_in(cache: NodeCache, remote: Remote, key: str, known: ObjectInfo | None = None) -> CachedBlob:
    """Open one object through a cache, as its store would."""
    return CachedStore(remote, cache, {key: known} if known else None).open(key, patience=cache.patience)
