"""From a URL to its remote store: the one module that knows all kinds of them. Sends no request."""

import os
from collections.abc import Iterator
from pathlib import Path

from penstock.runtime.atomicwrite import write_atomically
from penstock.store.local import LocalBlob, LocalStore, within
from penstock.store.pulled import PULL_STATE
from penstock.store.remote.hub import BucketRemote, DatasetRemote
from penstock.store.remote.objects import ObjectRemote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectChanged, ObjectInfo, ObjectMissing, Remote
from penstock.store.remote.urls import local_path, parse_hub_url, parse_url

_PIECE_BYTES = 16 << 20


def open_remote(url: str, options: StoreOptions | None = None) -> Remote:
    """Return the store of a URL. The first request shows whether it can be reached."""
    options = options or StoreOptions()
    folder = local_path(url)
    if folder is not None:
        return FolderRemote(folder)
    if url.startswith("hf://"):
        at = parse_hub_url(url)
        return DatasetRemote(at, options) if at.revision else BucketRemote(at, options)
    return ObjectRemote(parse_url(url), options)


def open_writable(url: str, options: StoreOptions | None = None) -> "ObjectRemote | FolderRemote":
    """Return the store of a URL that objects can be put into.

    Raises:
        ValueError: If it can only be read (http, hf).
    """
    if url.startswith(("http://", "https://", "hf://")):
        raise ValueError(f"{url}: cannot be written; use a folder or a bucket")
    remote = open_remote(url, options)
    assert isinstance(remote, ObjectRemote | FolderRemote)
    return remote


class FolderRemote:
    """A local folder, for copying and listing; training reads folders in place. Files of ``pull`` itself are hidden."""

    def __init__(self, root: Path) -> None:
        self._store = LocalStore(root)

    @property
    def url(self) -> str:
        return self._store.root.as_uri()

    @property
    def retries(self) -> int:
        return 0

    def head(self, key: str) -> ObjectInfo:
        blob = self._open(key)
        try:
            return ObjectInfo(blob.size, blob.stamp)
        finally:
            blob.close()

    def get_range(self, key: str, start: int, end: int, etag: str) -> memoryview:
        blob = self._open(key)
        try:
            if not etag.startswith(f"{blob.version}-"):
                raise ObjectChanged(f"{self.url}/{key}: version {etag} requested, but it is {blob.stamp} now")
            data = memoryview(bytearray(max(0, end - start)))
            blob.readinto(data, start)
            return data
        finally:
            blob.close()

    def put(self, key: str, file: Path) -> None:
        """Copy a file into the folder, where it appears whole or not at all."""
        path = within(self._store.root, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "rb") as source:
            write_atomically(path, iter(lambda: source.read(_PIECE_BYTES), b""), shared=True)

    def list(self, prefix: str = "") -> Iterator[tuple[str, ObjectInfo]]:
        top = within(self._store.root, prefix.strip("/")) if prefix.strip("/") else self._store.root
        if not top.is_dir():
            raise ObjectMissing(f"{top}: no such folder")
        paths = sorted(Path(folder) / name for folder, _, names in os.walk(top) for name in names)
        for path in paths:
            key = path.relative_to(self._store.root)
            if PULL_STATE not in key.parts:
                yield key.as_posix(), self.head(key.as_posix())

    def _open(self, key: str) -> LocalBlob:
        try:
            return self._store.open_file(key)
        except FileNotFoundError:
            raise ObjectMissing(f"{self.url}/{key}: no such file") from None
