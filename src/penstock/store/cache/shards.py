"""Whole shards as local files, for code that needs a path. Knows nothing of samples."""

import weakref
from pathlib import Path, PosixPath

from penstock.store.cache.blob import CachedBlob
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.local import LocalBlob, LocalStore
from penstock.store.remote.opening import open_remote
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import Remote
from penstock.store.remote.urls import local_path


class ShardPath(PosixPath):
    """The path of a shard. The shard stays in the cache for as long as this object lives.

    Objects made from it (a string, a parent, an open file) do not keep it there. ``release`` or leaving a ``with``
    block ends it sooner.
    """

    _pin: "weakref.finalize[[], ShardPath]"

    @classmethod
    def holding(cls, blob: CachedBlob | LocalBlob) -> "ShardPath":
        path = cls(blob.path)
        path._pin = weakref.finalize(path, blob.close)
        return path

    def release(self) -> None:
        """Let the shard be evicted from now on."""
        self._pin()

    def __enter__(self) -> "ShardPath":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class ShardCache:
    """A cache of whole shards, with LRU eviction.

    Args:
        cache_dir: Folder of the cache, created if it does not exist.
        max_size_gb: Bound in units of 1024³ bytes.
        remote: Store of the keys. If None, keys are URLs, such as ``s3://bucket/telugu/shard-000000.tar``.
        patience: Seconds to wait for space while everything that could be evicted is pinned.
        options: Options of the stores of URLs.

    Examples:
        >>> from pathlib import Path
        >>> import penstock
        >>> cache = penstock.ShardCache("cache", max_size_gb=1)
        >>> shard = cache.get_shard(Path("shards/bengali-0.tar").absolute().as_uri())  # or s3://bucket/…
        >>> shard.name
        'bengali-0.tar'
        >>> cache.close()
    """

    def __init__(
        self,
        cache_dir: str | Path,
        max_size_gb: float = 500,
        remote: Remote | None = None,
        patience: float = 60.0,
        options: StoreOptions | None = None,
    ) -> None:
        self._cache = NodeCache(cache_dir, int(max_size_gb * 1024**3), patience=patience)
        self._options = options
        self._stores: dict[str, CachedStore] = {}
        self._default = CachedStore(remote, self._cache) if remote else None

    def get_shard(self, key: str) -> ShardPath:
        """Return the path of a complete shard. It is downloaded once per node; a local shard is not copied."""
        if self._default is None and key.startswith("file://"):
            return ShardPath.holding(_local(key))
        store, name = (self._default, key) if self._default else self._by_url(key)
        blob = store.open(name)
        try:
            blob.fetch_whole()
        except BaseException:
            blob.close()
            raise
        return ShardPath.holding(blob)

    def close(self) -> None:
        self._cache.close()

    def _by_url(self, url: str) -> tuple[CachedStore, str]:
        folder, _, name = url.rpartition("/")
        if "://" not in folder:
            raise ValueError(f"shard {url!r} is not a URL: give ShardCache a remote=, or keys like s3://bucket/{url}")
        if folder not in self._stores:
            self._stores[folder] = CachedStore(open_remote(folder, self._options), self._cache)
        return self._stores[folder], name


def _local(url: str) -> LocalBlob:
    path = local_path(url)
    assert path is not None
    return LocalStore(path.parent).open_file(path.name)
