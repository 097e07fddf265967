"""Tar shards as a source: their keys in a config, and opening their manifest and reader. Knows no recipe."""

import hashlib
from collections.abc import Collection
from functools import partial
from pathlib import Path

from pydantic import model_validator

from penstock.config import AnchoredPath, StoreKeys, StoreUrl
from penstock.pipelines.pipeline import Context
from penstock.readers.published import Published
from penstock.readers.tar.filelist import open_filelist
from penstock.readers.tar.manifest import TarManifest
from penstock.readers.tar.reader import TarReader
from penstock.readers.tar.selected import SelectedManifest
from penstock.store.remote.options import StoreOptions
from penstock.store.remote.remote import ObjectInfo
from penstock.store.remote.urls import local_path

PUBLISHED_MANIFEST = "manifest"


class TarSource(StoreKeys):
    """The keys of an entry of ``sources`` whose data are tar shards.

    Attributes:
        filelist: TSV file with 4 columns. Give either this or ``manifest``.
        manifest: Folder that ``penstock index`` has made, or URL that it has uploaded it to.
        store: Folder or URL that shard paths are relative to.
        remote: Endpoint, region, anonymous access and request budget of a remote store.
        min_seconds: Shortest clip that is used. Shorter ones are not in the plan, and are never read.
        max_seconds: Longest clip that is used.
    """

    filelist: AnchoredPath | None = None
    manifest: StoreUrl | None = None
    min_seconds: float = 0.0
    max_seconds: float = float("inf")

    @model_validator(mode="after")
    def _either(self) -> "TarSource":
        if (self.filelist is None) == (self.manifest is None):
            raise ValueError("filelist: give either filelist or manifest")
        if not 0 <= self.min_seconds <= self.max_seconds:
            raise ValueError(f"max_seconds: no clip is between {self.min_seconds:g} and {self.max_seconds:g} s long")
        return self


def open_tar(source: TarSource, needs: Collection[str] | None, context: Context) -> tuple[TarManifest, TarReader]:
    """Open the manifest and the reader of an entry of ``sources``; see ``Pipeline.open``."""
    manifest = _manifest(source, context.scratch)
    open_store = context.opener(source, partial(_versions, manifest))
    return manifest, TarReader(manifest, open_store, needs, context.scratch / "indexes")


def _manifest(source: TarSource, scratch: Path) -> TarManifest:
    found = _whole_manifest(source, scratch)
    if source.min_seconds <= 0 and source.max_seconds == float("inf"):
        return found
    return SelectedManifest(found.path, source.min_seconds, source.max_seconds)


def _whole_manifest(source: TarSource, scratch: Path) -> TarManifest:
    if source.manifest is not None:
        return TarManifest(local_path(source.manifest) or _taken(source.manifest, source, scratch))
    assert source.filelist is not None
    filelist = source.filelist
    folder = local_path(source.store)
    return open_filelist(filelist, scratch / "manifests", known_shards=lambda: _files(filelist, folder))


def _taken(url: str, source: TarSource, scratch: Path) -> Path:
    """Return the folder of a published manifest, which is downloaded if it is not here."""
    published = Published(url, PUBLISHED_MANIFEST, StoreOptions(**source.remote.model_dump()))
    key = hashlib.sha256(f"{url}\n{published.version}".encode()).hexdigest()[:16]
    folder = scratch / "manifests" / f"{url.rstrip('/').rpartition('/')[2]}-{key}"
    published.take(folder)
    return folder


def _files(filelist: Path, folder: Path | None) -> list[str] | None:
    """Return the files of a local store; None if none of the listed ones exists: a plan needs no data."""
    if folder is None or not folder.is_dir():
        return None
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    known = {name.encode() for name in files}
    with open(filelist, "rb") as lines:
        return files if any(line.split(b"\t", 1)[0] in known for line in lines) else None


def _versions(manifest: TarManifest, url: str) -> dict[str, ObjectInfo]:
    """Return sizes and versions of the shards, if the manifest is an index of this store; otherwise nothing."""
    if manifest.store != url:
        return {}
    shards = manifest.all_shards()
    return {shard.path: ObjectInfo(shard.size, shard.version) for shard in shards if shard.size and shard.version}
