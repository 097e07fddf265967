"""Runs whose shards lie in a bucket behind the fault proxy: what the tests of this folder have in common."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.feed import Feed
from penstock.readers.tar.index import index_shards
from penstock.readers.tar.manifest import TarManifest
from penstock.store.cache.cache import NodeCache
from penstock.store.cache.cached import CachedStore
from penstock.store.remote.direct import DirectStore
from tests.conftest import S3Prefix
from tests.servers.faultproxy import FaultProxy, Request
from tests.shards import small_run

PART = 4_096
Part = tuple[str, int]  # shard and number of the part


def upload(s3: S3Prefix, folder: Path) -> None:
    for path in folder.rglob("*.tar"):
        s3.put(path.relative_to(folder).as_posix(), path.read_bytes())


def index(s3: S3Prefix, folder: Path) -> Path:
    """The indexed manifest of the uploaded shards of a filelist, made straight from the bucket."""
    paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*.tar")]
    index_shards(DirectStore(s3.remote()), paths, folder / "index", filelist=folder / "train.tsv")
    return folder / "index"


def remote_run(
    s3: S3Prefix,
    proxy: FaultProxy,
    folder: Path,
    *,
    part: int = PART,
    cache: str = "cache",
    size: int = 10**9,
    **options: Any,
) -> dict[str, Any]:
    """Options of a run over uploaded shards, through the proxy and a cache of small parts; with its index if made."""
    NodeCache(folder / cache, size, part_bytes=part).close()
    where = {"manifest": folder / "index"} if (folder / "index").exists() else {"filelist": folder / "train.tsv"}
    run = {key: value for key, value in small_run(folder).items() if key != "filelist"}
    remote = {"endpoint": proxy.url, "region": "us-east-1"}
    own = {"store": s3.url, "remote": remote, "cache": {"dir": folder / cache, "size": size}}
    return {**run, **where, **own, **options}


def manifest_of(feed: Feed) -> TarManifest:
    """The manifest of a run with one part."""
    manifest = feed.catalog.parts[0].manifest
    assert isinstance(manifest, TarManifest)
    return manifest


def store_of(feed: Feed) -> CachedStore:
    """The store of a run with one part."""
    store = feed.catalog.resident(0, 0)[0].unit.store
    assert isinstance(store, CachedStore)
    return store


def needed_parts(feed: Feed, step: int, rank: int = 0, world: int = 1, part: int = PART) -> list[Part]:
    """The parts that hold the samples of a step, by the index alone, in the order of the samples."""
    manifest = manifest_of(feed)
    rows = feed.catalog.rows(feed.planned(step, rank, world))
    parts: list[Part] = []
    for row in (row for row in rows if row >= 0):
        members = manifest.members(row)[0]
        shard = manifest.shard(int(manifest.shard_of(row))).path
        for each in range(members[0].offset // part, (members[-1].offset + members[-1].size - 1) // part + 1):
            parts.append((shard, each))
    return parts


def requested_parts(s3: S3Prefix, requests: list[Request], part: int = PART) -> list[Part]:
    return [
        (request.key.removeprefix(f"{s3.prefix}/"), each)
        for request in requests
        for each in range(request.start // part, -(-request.end // part))
    ]


def without_repeats(parts: Iterable[Part]) -> list[Part]:
    return list(dict.fromkeys(parts))
